"""The commands of the webhook: serve, check, inject, audit, policies, certs.

The rule it owns: bad input ends with one sentence of cause, one of remedy, and exit code 2.  The work of each command
stands elsewhere and is imported when the command runs.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from adapters.errors import NoCluster
from webhook.errors import StartError, WebhookError

Command = Callable[[argparse.Namespace], int]
_BAD_INPUT = 2


def _serve(arguments: argparse.Namespace) -> int:
    from gevent import monkey

    monkey.patch_all(queue=False)  # before any other import; the signal queue of the arbiter stays as it is
    from webhook import settings
    from webhook.serving import logs
    from webhook.serving.server import serve

    file = settings.TABLE.read_file(arguments.settings)
    chosen = settings.read_settings(vars(arguments), os.environ, file)
    logs.configure(chosen.log_format)
    serve(chosen)
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from webhook.offline.check_inject import check

    return check(arguments)


def _inject(arguments: argparse.Namespace) -> int:
    from webhook.offline.check_inject import inject

    return inject(arguments)


def _audit(arguments: argparse.Namespace) -> int:
    from webhook.offline.audit_command import audit

    return audit(arguments)


def _policies(arguments: argparse.Namespace) -> int:
    from webhook.apiserver.generated import manifests

    contents = {Path(arguments.out) / path: content for path, content in manifests().items()}
    for file, content in contents.items():
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        except OSError as error:
            reason = error.strerror or error
            raise StartError(f"{file} cannot be written ({reason}). Name another --out.") from None
        print(f"wrote {file}")
    return 0


def _certs_issue(arguments: argparse.Namespace) -> int:
    from webhook.certs.files import write_set

    write_set(Path(arguments.out), tuple(arguments.host or ("localhost", "127.0.0.1")), days=arguments.days)
    print(f"wrote ca.crt, tls.crt and tls.key to {arguments.out}")
    return 0


def _parser() -> argparse.ArgumentParser:
    from webhook import settings
    from webhook.certs import cli as rotation
    from webhook.offline import check_inject

    parser = argparse.ArgumentParser(prog="nvshare-webhook", description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    serve = _command(commands, "serve", _serve, "answer the API server's reviews")
    settings.TABLE.add_flags(serve)
    check = _command(commands, "check", _check, "say what admission would say of the objects in files")
    check_inject.add_flags(check)
    check.add_argument("--output", choices=("text", "json"), default="text", help="how to say it")
    inject = _command(commands, "inject", _inject, "write the objects as admission would complete them")
    check_inject.add_flags(inject)
    audit_cli_flags(_command(commands, "audit", _audit, "find running pods that today's policy would refuse"))
    policies = _command(commands, "policies", _policies, "write the API server's policies from the table of rules")
    policies.add_argument("--out", default="manifests", metavar="FOLDER", help="default: manifests")
    certs = parser_of(commands, "certs", "certificates")
    actions = certs.add_subparsers(required=True, metavar="ACTION")
    rotation.add_commands(actions)
    issue = _command(actions, "issue", _certs_issue, "make a CA and a leaf")
    issue.add_argument("--out", required=True, metavar="FOLDER", help="where ca.crt, tls.crt and tls.key go")
    issue.add_argument("--host", action="append", metavar="NAME", help="name or address to serve (may be repeated)")
    issue.add_argument("--days", type=int, default=365, help="how long they are valid (default: 365)")
    return parser


def audit_cli_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `audit`; they stand here since importing its module takes a second."""
    from webhook.offline import check_inject

    parser.add_argument(
        "--kubeconfig", default="", help="default: KUBECONFIG, else the pod's service account, else ~/.kube/config"
    )
    check_inject.add_volume_flags(parser)
    parser.add_argument("--output", choices=("text", "json"), default="text", help="how to say it")


def parser_of(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, what: str
) -> argparse.ArgumentParser:
    """Add a command with its own parser."""
    return commands.add_parser(name, help=what, description=what)


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, run: Command, what: str
) -> argparse.ArgumentParser:
    parser = parser_of(commands, name, what)
    parser.set_defaults(run=run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code: 0 done, 1 denied, 2 bad input."""
    parsed = _parser().parse_args(arguments)
    try:
        run: Command = parsed.run
        return run(parsed)
    except WebhookError as error:
        print(f"nvshare-webhook: {error}", file=sys.stderr)
        return _BAD_INPUT
    except NoCluster as error:
        remedy = "Run in a pod, or name --kubeconfig, or (serve) a --namespace-file to do without a cluster."
        print(f"nvshare-webhook: {error.cause}. {remedy}", file=sys.stderr)
        return _BAD_INPUT
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
