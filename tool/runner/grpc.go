package runner

import (
	"net/http"
	"time"
)

// GRPCError returns nil where a gRPC status is OK, else a *[StatusError] with the code that
// stands for it in HTTP, so that [IsRetryable] knows it:
//
//	err = runner.GRPCError(uint32(status.Code(err)), 0, err)
//
// UNAVAILABLE, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, INTERNAL, UNKNOWN, DATA_LOSS and CANCELLED
// may pass, and none of them says that nothing was done: RESOURCE_EXHAUSTED is also what a client
// makes of an answer that is too long for it. ABORTED may pass where retryAfter is given, which is
// how long the server asks to wait, such as in the trailer grpc-retry-pushback-ms. CANCELLED is
// that of the server or of a proxy: the caller's own ends its context.
func GRPCError(code uint32, retryAfter time.Duration, err error) error {
	if code == 0 {
		return nil
	}
	status := http.StatusInternalServerError // UNKNOWN, INTERNAL, DATA_LOSS and codes to come
	if int(code) < len(grpcStatuses) && grpcStatuses[code] != 0 {
		status = grpcStatuses[code]
	}
	return &StatusError{Code: status, RetryAfter: max(retryAfter, 0), Err: err}
}

// grpcStatuses are the codes of HTTP that stand for those of gRPC, as google.rpc.Code maps
// them, but for CANCELLED, which has none that is registered, and RESOURCE_EXHAUSTED, whose
// 429 says that nothing was done.
var grpcStatuses = [...]int{
	1:  http.StatusServiceUnavailable, // CANCELLED
	3:  http.StatusBadRequest,         // INVALID_ARGUMENT
	4:  http.StatusGatewayTimeout,     // DEADLINE_EXCEEDED
	5:  http.StatusNotFound,           // NOT_FOUND
	6:  http.StatusConflict,           // ALREADY_EXISTS
	7:  http.StatusForbidden,          // PERMISSION_DENIED
	8:  http.StatusServiceUnavailable, // RESOURCE_EXHAUSTED
	9:  http.StatusBadRequest,         // FAILED_PRECONDITION
	10: http.StatusConflict,           // ABORTED
	11: http.StatusBadRequest,         // OUT_OF_RANGE
	12: http.StatusNotImplemented,     // UNIMPLEMENTED
	14: http.StatusServiceUnavailable, // UNAVAILABLE
	16: http.StatusUnauthorized,       // UNAUTHENTICATED
}
