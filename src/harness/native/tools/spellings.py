"""Names of tools as models have learnt them elsewhere → ours. They are accepted where no tool has that name, and never shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.contracts.model import Call
from harness.contracts.tool import Tool, ToolFailure

_SPELLINGS = {
    "bash": "shell run_shell_command execute_command local_shell exec_command run_command terminal run_terminal_cmd execute "
    "container.exec developer__shell run_terminal_command run_in_terminal run_commands run_shell shell_command runcommand",
    "bash_output": "bashoutput job_output read_background_output get_command_output killbash kill_shell",
    "read": "read_file view view_file cat open_file readfile read_many_files read_files read_image view_image get_file_contents",
    "write": "write_file create_file write_to_file writefile create",
    "edit": "str_replace replace edit_file search_replace multiedit multi_edit replace_in_file replace_string_in_file "
    "edit_existing_file",
    "apply_patch": "applypatch patch apply_diff",
    "grep": "search grep_search ripgrep search_files search_file_content rg search_for_pattern codebase_search "
    "search_codebase grep_code",
    "glob": "find file_search glob_file_search find_files find_file",
    "list": "ls list_dir list_directory list_files listdir tree",
    "todo": "todowrite todo_write update_plan write_todos todos updatetodos update_todos todolist todo_list todo__todo_write "
    "set_todos manage_todo_list",
    "agent": "task spawn_agent subagent dispatch_agent delegate spawn_subagent invoke_subagent invoke_agent run_subagent",
    "fetch": "webfetch web_fetch fetch_url read_url browse fetch_web_content fetch_webpage url_fetch",
    "ask_user": "askuserquestion ask_user_question question ask ask_followup_question request_user_input ask_question",
    "submit_plan": "exitplanmode exit_plan_mode present_plan plan_exit",
    "skill": "use_skill load_skill activate_skill skills",
}
_EDITORS = frozenset({"editor", "text_editor", "str_replace_editor", "str_replace_based_edit_tool"})
"""One tool for several things there: `command` says which, or what is given."""
_OF_EDITORS = {"view": "read", "create": "write", "str_replace": "edit"}
_ONE_EACH = {"files": "path", "paths": "path", "requests": "url", "queries": "query", "subagents": "task"}
"""Where others take several at once, and ours one: of a list with one entry it is clear what is meant."""
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
    name, arguments = call.name, call.input
    if name not in tools:
        spelled = name.lower().replace("-", "_")
        name = next(
            (
                spelling
                for spelling in (spelled, _of_an_editor(spelled, arguments), _OURS.get(spelled, ""))
                if spelling in tools
            ),
            name,
        )
        if name in tools and isinstance(arguments, dict):
            arguments = _with_the_one(arguments)
    plain = getattr(tools.get(name), "plain", None)
    if plain is not None and isinstance(arguments, dict):
        try:
            arguments = plain(arguments, resource, question if isinstance(question, dict) else None)
        except Exception:  # noqa: BLE001 # arguments are as the model wrote them: the tool itself says what is wrong
            arguments = call.input
    return call if name == call.name and arguments == call.input else Call(call.id, name, arguments)


def _of_an_editor(name: str, arguments: Any) -> str:
    """Which of our tools a call of an editor is; empty where it is none, or of none."""
    if name not in _EDITORS or not isinstance(arguments, dict):
        return ""
    if "command" in arguments:
        return _OF_EDITORS.get(str(arguments["command"]), "")
    if "insert_line" in arguments:
        return ""
    return "edit" if arguments.get("old_text") or arguments.get("old_str") else "write"


def _with_the_one(arguments: dict[str, Any]) -> dict[str, Any]:
    for name, of_one in _ONE_EACH.items():
        several = arguments.get(name)
        if isinstance(several, list) and len(several) == 1:
            rest = {key: value for key, value in arguments.items() if key != name}
            return {**rest, **(several[0] if isinstance(several[0], dict) else {of_one: several[0]})}
    return arguments
