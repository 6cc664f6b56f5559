// Package kill has the campaigns that kill: the processes that call, in the
// middle of their calls, and the server under load.
package kill
