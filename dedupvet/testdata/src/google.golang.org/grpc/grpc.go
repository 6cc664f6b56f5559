// Package grpc stands in for the original, as far as the cases use it.
package grpc

type CallOption interface{ option() }
