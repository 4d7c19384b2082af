"""Who may use the server: token, links, keys of browsers, host names, limits on connections."""
