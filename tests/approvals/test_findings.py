"""Ways around a question or a rule that once worked, and the tests that failed before each was mended.

`harness doctor --scenario ask-holds` tries those of the decision with real agents ([docs/verified.md]).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FINDINGS: Mapping[str, tuple[str, ...]] = {
    "a command line that looks like reading runs": (
        "tests/runs/test_questions.py::test_a_command_that_looks_like_reading_is_asked_about",
        "tests/runs/test_questions.py::test_no_command_runs_where_a_run_may_only_read",
        "tests/approvals/test_free_commands.py::test_a_free_line_has_no_effect_in_a_shell",
    ),
    "a skill counts as reading": (
        "tests/runs/test_questions.py::test_what_may_do_anything_is_asked_about",
        "tests/agents/test_claude_asks_first.py::test_all_that_acts_is_asked_about",
        "tests/agents/test_droid.py::test_no_skill_is_loaded_where_everything_is_to_be_asked_about",
    ),
    "a question is judged by the call that was streamed under its id": (
        "tests/runs/test_questions.py::test_a_question_is_not_judged_by_the_call_that_was_announced_under_its_id",
        "tests/runs/test_questions.py::test_an_id_that_is_used_twice_is_asked_about",
        "tests/runs/test_questions.py::test_what_was_withdrawn_and_comes_again_otherwise_is_asked_about",
    ),
    "a tool of a server is taken for a built-in one by its arguments": (
        "tests/protocols/acp/test_acp_asked_calls.py::test_a_tool_without_a_name_is_not_known_by_its_arguments_or_kind",
    ),
    "accept-edits writes anywhere": (
        "tests/approvals/test_decide.py::test_each_mode_allows_what_it_says_and_nothing_else",
        "tests/approvals/test_decide.py::test_a_path_that_is_not_certainly_below_the_folder_is_asked_about",
        "tests/approvals/test_decide.py::test_an_edit_of_what_others_obey_is_asked_about_in_every_reading_of_the_path",
    ),
    "a repository's own settings run programs": (
        "tests/runs/test_folder_trust.py::test_settings_of_an_untrusted_folder_are_left_out_by_the_agents_own_means",
        "tests/runs/test_folder_trust.py::test_gemini_is_never_told_to_trust_what_nobody_trusts",
        "tests/runs/test_folder_trust.py::test_a_wall_hides_what_an_agent_cannot_be_told_to_leave_out",
        "tests/runs/test_folder_trust.py::test_without_a_wall_the_run_is_refused",
    ),
    "git of a fleet runs a program of the agent under test": (
        "tests/fleet/plans/test_fleet_workspace.py::test_nothing_of_a_nested_repository_is_run",
    ),
    "reading is allowed anywhere": ("tests/runs/test_questions.py::test_reading_elsewhere_is_asked_about",),
    "worktrees run filters of a repository": (
        "tests/clients/workspaces/test_worktrees.py::test_nothing_of_the_repository_runs",
        "tests/clients/workspaces/test_worktrees.py::test_what_git_includes_only_in_a_worktree_does_not_run_either",
        "tests/fleet/plans/test_fleet_workspace.py::test_a_clone_of_a_hostile_repository_runs_none_of_its_programs",
    ),
    "a browser's proof is not bound to the address": (
        "tests/server/access/test_logins.py::test_a_proof_for_one_address_is_worth_nothing_at_another",
    ),
    "a call can be allowed whose rest cannot be seen": (
        "tests/server/test_attach.py::test_hidden_parts_of_a_command_are_counted_and_can_be_seen",
        "tests/tui/test_tui_answers.py::test_every_call_that_an_ask_stands_for_is_in_the_box_and_why_it_is_asked",
        "tests/clients/test_shown_to_other_clients.py::test_an_editor_shows_every_call_of_a_question_whole",
        "tests/clients/test_shown_to_other_clients.py::test_a_form_shows_every_call_of_a_question_whole",
    ),
    "results of a fleet can be had by cheating": (
        "tests/fleet/test_fleet_work.py::test_an_agent_sees_neither_hidden_files_nor_what_others_do",
        "tests/fleet/test_fleet_work.py::test_an_agent_does_not_find_the_answer_beside_its_workspace",
        "tests/fleet/test_fleet_work.py::test_a_hidden_file_that_was_changed_is_noticed",
    ),
    "escape sequences reach the terminal through errors": (
        "tests/cli/test_cli_hostile_text.py::test_messages_name_what_was_given_without_its_commands",
    ),
    "refusals without end": (
        "tests/runs/test_questions.py::test_a_program_that_is_refused_again_and_again_is_ended",
        "tests/runs/test_questions.py::test_a_program_that_is_allowed_something_between_its_refusals_is_ended_too",
        "tests/protocols/acp/test_acp_asked_calls.py::test_refusals_end",
    ),
    "always is a right to run or write anything": (
        "tests/approvals/test_grants.py::test_a_form_covers_operands_and_no_option_that_was_not_seen",
        "tests/approvals/test_grants.py::test_what_could_write_anywhere_or_run_a_program_has_no_form",
    ),
    "ask turns into the agent's own settings": (
        "tests/runs/test_granted_modes.py::test_a_chat_and_the_page_say_what_a_run_says",
        "tests/runs/test_granted_modes.py::test_an_agent_that_cannot_be_asked_is_refused_in_the_same_words",
    ),
    "one question of Droid stands for several calls": (
        "tests/protocols/acp/test_acp_asked_calls.py::test_a_question_of_droid_stands_for_every_call_that_was_not_asked_about",
        "tests/protocols/acp/test_acp_asked_calls.py::test_a_question_for_several_calls_that_shows_one_says_so",
    ),
    "an old Claude Code is not held to ask": (
        "tests/runs/test_granted_modes.py::test_claude_is_asked_only_in_versions_that_were_seen_to_ask",
        "tests/runs/test_granted_modes.py::test_a_program_that_does_not_say_its_version_is_not_taken_for_one_that_asks",
        "tests/runs/test_questions.py::test_a_program_that_turns_out_to_be_a_version_that_does_not_ask_is_ended",
    ),
    "always has no effect for compound lines": (
        "tests/runs/test_questions.py::test_always_holds_for_the_same_line_whatever_the_model_says_of_it",
        "tests/approvals/test_grants.py::test_a_line_that_was_always_allowed_is_not_asked_about_again",
    ),
    "always is not offered with a redirection, and taken all the same": (
        "tests/approvals/test_grants.py::test_a_line_that_was_always_allowed_is_not_asked_about_again",
        "tests/runs/test_questions.py::test_always_that_is_not_offered_is_no_answer",
    ),
    "own words do not reach Kimi": (
        "tests/protocols/acp/test_acp_forms.py::test_own_words_that_a_form_has_no_place_for_are_given_as_a_message",
    ),
    "an interrupted command of Goose lives on": (
        "tests/runs/test_left_behind.py::test_no_command_of_goose_outlives_the_turn_that_was_interrupted",
        "tests/protocols/acp/test_acp.py::test_a_program_that_leaves_commands_is_ended_with_the_interrupted_call",
    ),
    "costs of a held conversation of Goose are wrong": (
        "tests/agents/test_goose.py::test_every_turn_of_a_held_conversation_costs_what_it_added",
    ),
    "a run goes on after it was stopped, with a message that was queued": (
        "tests/agents/test_claude_control.py::test_what_is_queued_is_taken_back_before_the_turn_is_interrupted",
        "tests/agents/test_claude_control.py::test_a_version_that_takes_nothing_back_is_killed_before_it_begins_with_the_message",
    ),
    "Codex types into what was allowed once, shows images of anywhere, searches the web": (
        "tests/agents/test_codex_threads.py::test_what_it_does_without_asking_is_switched_off_where_all_is_asked_about",
    ),
    "Copilot starts programs of agents that a folder brings for another agent": (
        "tests/approvals/test_trust.py::test_names_that_an_agent_takes_over_from_another_one_count",
    ),
    "a denied path is opened by a glob, or glued to an option": (
        "tests/approvals/test_denied_paths.py::test_a_glob_that_a_shell_may_read_as_a_denied_path_is_denied",
        "tests/approvals/test_denied_paths.py::test_a_line_that_could_name_a_denied_path_is_never_allowed_unasked",
    ),
    "one answer of a program that is a client allows calls which it was not shown": (
        "tests/clients/test_shown_to_other_clients.py::test_a_client_that_is_a_program_gets_every_call_of_a_question",
    ),
    "any call is asked about as a plan if it says that it is one": (
        "tests/protocols/acp/test_acp_asked_calls.py::test_a_call_that_claims_to_be_a_plan_is_asked_about_as_what_it_is",
        "tests/protocols/acp/test_acp_asked_calls.py::test_a_plan_that_comes_with_other_calls_is_no_question_about_a_plan_alone",
    ),
    "a check of files runs for a change that is refused": (
        "tests/cli/test_cli_additions.py::test_no_check_runs_for_a_change_that_is_not_allowed",
        "tests/native/additions/test_checks.py::test_the_name_of_a_file_is_no_option_of_a_check",
    ),
    "an agent that imports a session starts what the folder brings": (
        "tests/session/test_hand_over_within.py::test_the_import_of_an_agent_starts_nothing_that_the_folder_brings",
    ),
    "Droid reads files of anywhere": (
        "tests/agents/test_droid.py::test_nothing_elsewhere_is_read_where_everything_is_to_be_asked_about",
    ),
    "a denied command is put together in the text of a program": (
        "tests/approvals/test_decide.py::test_a_line_that_could_come_to_a_denied_command_is_never_allowed_unasked",
    ),
    "questions of sub-agents are not marked": (
        "tests/protocols/acp/test_acp_asked_calls.py::test_a_question_of_a_sub_agent_says_whose_it_is",
    ),
    "the doctor calls a version broken that does not say which it is": (
        "tests/lab/test_two_way_run.py::test_an_agent_that_does_not_say_its_version_is_not_called_broken",
    ),
    "the question of a dead process takes an answer": (
        "tests/cli/test_cli_chat.py::test_a_question_of_a_program_that_died_takes_no_answer",
    ),
}


@pytest.mark.parametrize("finding", FINDINGS)
def test_each_finding_has_tests_that_are_there(finding: str) -> None:
    for named in FINDINGS[finding]:
        path, _, name = named.partition("::")
        text = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^(?:async )?def {name}\(", text, re.MULTILINE), named
