package api

import (
	"go/types"
	"strings"
)

// Metadata is the package of gRPC that has the headers of a request.
const Metadata = grpc + "/metadata"

const (
	grpc    = "google.golang.org/grpc"
	connect = "connectrpc.com/connect"
)

// IsRPC reports whether fn is a method of a client of gRPC or Connect that sends a request. Only
// those of gRPC end in call options. The interface of a Connect handler has the methods of its
// client, so the name of the type decides.
func IsRPC(fn *types.Func) bool {
	if fn == nil || fn.Signature().Recv() == nil || fn.Signature().Params().Len() == 0 {
		return false
	}
	params := fn.Signature().Params()
	last := params.At(params.Len() - 1).Type()
	if fn.Signature().Variadic() {
		options, ok := last.(*types.Slice)
		return ok && IsNamed(options.Elem(), grpc, "CallOption")
	}
	client, ok := Elem(fn.Signature().Recv().Type()).(*types.Named)
	return ok && strings.HasSuffix(client.Obj().Name(), "Client") && IsNamed(last, connect, "Request")
}
