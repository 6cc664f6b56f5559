// Package chaos is the command `proof chaos`: campaigns that try to break the promise on a real
// server. Each campaign counts only the faults that were applied, has a control arm that must go
// wrong, and ends with a line of JSON.
package chaos
