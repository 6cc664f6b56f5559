// Package reissue is the campaign of an MCP client whose answers get lost. It calls a
// tool over streamable HTTP, with MCP 2026-07-28 and with the version before it,
// through a balancer before two server processes. It cancels calls at random moments,
// the balancer cuts connections before, behind and in place of the answer and delivers
// requests twice, and servers are killed. Whatever was not answered is issued again as
// a new request, with the same key and perhaps to the other server.
package reissue
