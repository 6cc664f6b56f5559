// Package rpc holds what packages grpcdedup and connectdedup do alike for a unary method: it finds
// the method, reads the key, compares requests, runs the handler in the call's transaction, and
// turns the outcome into a message or a google.rpc.Status. Each door only moves these through its
// own library.
package rpc
