"""A server made with the official library: `python mcp_official_server.py stdio|sse|streamable-http PORT`."""

from __future__ import annotations

import sys

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("official")


@server.tool()
async def shout(text: str, context: Context) -> str:
    """Say it louder."""
    await context.report_progress(1, 2, "thinking")
    return text.upper()


if __name__ == "__main__":
    transport = sys.argv[1]
    if transport == "stdio":
        server.run("stdio")
    else:
        server.run(transport, host="127.0.0.1", port=int(sys.argv[2]))
