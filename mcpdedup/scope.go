package mcpdedup

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TokenUser is an Options.Scope that returns the user of the request's verified bearer token, which
// package auth of the SDK provides. It returns an error for a request without a token, or whose
// token names no user.
func TokenUser(_ context.Context, req *mcp.CallToolRequest) (string, error) {
	if req.Extra == nil || req.Extra.TokenInfo == nil || req.Extra.TokenInfo.UserID == "" {
		return "", errors.New("mcpdedup: the request has no verified token that names a user; wrap the handler in auth.RequireBearerToken")
	}
	return req.Extra.TokenInfo.UserID, nil
}

// SingleUser returns an Options.Scope for a server with one user, such as a server over stdio that
// a program starts for itself.
func SingleUser(name string) func(context.Context, *mcp.CallToolRequest) (string, error) {
	return func(context.Context, *mcp.CallToolRequest) (string, error) { return name, nil }
}
