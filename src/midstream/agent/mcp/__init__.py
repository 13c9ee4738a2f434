"""Tools, resources and prompts of MCP servers: `McpServers` in servers.py is where to begin."""
