"""Names of tools as models have learnt them elsewhere → ours. They are accepted where no tool has that name, and never shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.contracts.model import Call
from harness.contracts.tool import Tool, ToolFailure

_SPELLINGS = {
    "bash": "shell run_shell_command execute_command local_shell exec_command run_command terminal run_terminal_cmd execute "
    "container.exec developer__shell",
    "bash_output": "bashoutput job_output read_background_output get_command_output killbash kill_shell",
    "read": "read_file view view_file cat open_file readfile read_many_files",
    "write": "write_file create_file write_to_file writefile create",
    "edit": "str_replace replace edit_file search_replace multiedit multi_edit str_replace_editor replace_in_file",
    "apply_patch": "applypatch patch apply_diff",
    "grep": "search grep_search ripgrep search_files search_file_content rg search_for_pattern codebase_search",
    "glob": "find file_search glob_file_search find_files find_file",
    "list": "ls list_dir list_directory list_files listdir",
    "todo": "todowrite todo_write update_plan write_todos todos",
    "agent": "task spawn_agent subagent dispatch_agent delegate",
    "fetch": "webfetch web_fetch fetch_url read_url browse",
    "ask_user": "askuserquestion ask_user_question question ask ask_followup_question request_user_input ask_question",
    "submit_plan": "exitplanmode exit_plan_mode present_plan plan_exit",
    "skill": "use_skill load_skill activate_skill",
}
_OURS = {spelling: name for name, spellings in _SPELLINGS.items() for spelling in spellings.split()}


def _no_resource(make: Callable[[], Any]) -> Any:
    del make
    raise ToolFailure("nothing outlives a call here")


def in_our_words(
    call: Call,
    tools: Mapping[str, Tool],
    resource: Callable[[Callable[[], Any]], Any] = _no_resource,
    question: Any = None,
) -> Call:
    """The call of a tool that there is, with arguments that say what will be done; unchanged where there is none.

    `resource`: what earlier calls have left (`ToolContext.resource`). `question`: the arguments that a person was asked
    about, when the answer comes in another process: where it runs is then what they say.
    """
    name = call.name
    if name not in tools:
        spelled = name.lower().replace("-", "_")
        name = next((one for one in (spelled, _OURS.get(spelled, "")) if one in tools), name)
    plain = getattr(tools.get(name), "plain", None)
    arguments = call.input
    if plain is not None and isinstance(arguments, dict):
        try:
            arguments = plain(arguments, resource, question if isinstance(question, dict) else None)
        except Exception:  # noqa: BLE001 # arguments are as the model wrote them: the tool itself says what is wrong
            arguments = call.input
    return call if name == call.name and arguments == call.input else Call(call.id, name, arguments)
