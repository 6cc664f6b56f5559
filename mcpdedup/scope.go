package mcpdedup

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TokenUser is an Options.Scope: the user of the request's verified bearer token,
// as package auth of the SDK hands it on. A request without a token, or with one
// that names no user, is an error.
func TokenUser(_ context.Context, req *mcp.CallToolRequest) (string, error) {
	if req.Extra == nil || req.Extra.TokenInfo == nil || req.Extra.TokenInfo.UserID == "" {
		return "", errors.New("mcpdedup: the request has no verified token that names a user; wrap the handler in auth.RequireBearerToken")
	}
	return req.Extra.TokenInfo.UserID, nil
}

// SingleUser returns an Options.Scope for a server that has one user, such as one
// that a program starts for itself and talks to over stdio.
func SingleUser(name string) func(context.Context, *mcp.CallToolRequest) (string, error) {
	return func(context.Context, *mcp.CallToolRequest) (string, error) { return name, nil }
}
