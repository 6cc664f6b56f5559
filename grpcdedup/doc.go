// Package grpcdedup intercepts the writing methods of a gRPC server: a request that comes again is
// answered with the first one's response, and the method's writes happen once.
//
//	interceptor, err := grpcdedup.New(d, grpcdedup.Options{
//		Methods: []string{shopv1.Orders_Create_FullMethodName},
//		Scope:   func(ctx context.Context) (string, error) { return tenantOf(ctx) },
//	})
//	server := grpc.NewServer(grpc.ChainUnaryInterceptor(authenticate, interceptor.Unary))
//
//	func (s *orders) Create(ctx context.Context, in *shopv1.CreateRequest) (*shopv1.Order, error) {
//		tx, ok := grpcdedup.Tx(ctx)
//		if !ok {
//			return nil, status.Error(codes.Internal, "Options.Methods does not name this method")
//		}
//		…write through tx, and return
//	}
//
// # The key
//
// A request names its action by a key: its field request_id (AIP-155), a single string at the top
// of the message, or the metadata idempotency-key. A client makes the key once and sends it with
// every retry; [ClientKey] does so. If both are there they must be equal. Key, scope and method are
// the call's identity. The metadata is read as package httpdedup reads the header: as it is, or as
// a string in quotes.
//
// # What is compared
//
// A key that comes again must come with the same request. Requests are compared by their JSON form
// and by the bytes of their unknown fields, nested ones too. So the order of fields and maps does
// not count. The field request_id is not compared.
//
// # What is answered
//
// A response is recorded in the handler's transaction, with its unknown fields, and given to every
// later request. The header idempotency-replayed is "true" then. Headers and trailers that the
// handler sends are not recorded: they go with the answer of the run that was committed, and with
// no other. grpc.SetSendCompressor and grpc.ClientSupportedCompressors fail behind the
// interceptor: call them in one before it.
//
// An error of the handler rolls back, is passed on as it is, and a retry runs the handler again.
// Return a status: the text of a database error has values in it. [dedup.Final] around an error
// makes it the answer: its status is recorded with its details. An error without a status is
// recorded as FAILED_PRECONDITION. If a request's context ends before the commit, its run is rolled
// back.
//
// The interceptor's own answers have a google.rpc.ErrorInfo of domain io.github.tooldedup. Its
// metadata has the method, without a slash at the start, as the records have it, and the keys that
// the table lists in lower case. Changed fields have their JSON names, and commas between them:
//
//	reason             code                 what happened; details
//	KEY_REQUIRED       INVALID_ARGUMENT     neither field nor metadata has a key
//	KEY_INVALID        INVALID_ARGUMENT     the key names no call, or field and metadata differ
//	ARGUMENTS_INVALID  INVALID_ARGUMENT     the request has no JSON form, or the tool refuses it
//	UNIDENTIFIED       UNAUTHENTICATED      Options.Scope has an error without a status
//	KEY_REUSED         FAILED_PRECONDITION  another request had the key; changed, complete, created_at
//	EXPIRED            FAILED_PRECONDITION  it was answered, and the answer is not kept; created_at
//	REFUSED            FAILED_PRECONDITION  a tool of the registry refused; code
//	BLOCKED            FAILED_PRECONDITION  it may have taken effect: see dedup.ErrBroken
//	PARKED             FAILED_PRECONDITION  it may have taken effect, and a person finds out; RetryInfo
//	IN_FLIGHT          ABORTED              an equal request is running; RetryInfo
//	OUTCOME_UNKNOWN    UNAVAILABLE          the answer to COMMIT was lost; RetryInfo
//	UNAVAILABLE        UNAVAILABLE          the database is busy or away; RetryInfo
//	TIMEOUT            of the context       the request's context ended; UNAVAILABLE if it has not
//	FAILED             INTERNAL             Options.OnError is told why
//
// A client may send any request again with its key, whatever the code. One that retries by a policy
// of grpc-go lists ABORTED and UNAVAILABLE. A RetryInfo's delay is also sent as the trailer
// grpc-retry-pushback-ms, which grpc-go uses as its pause. grpc-go does not retry
// an answer that has a header, so an interceptor before this one sets none.
package grpcdedup
