// Package connectdedup intercepts the writing methods of a Connect server: a request that comes
// again is answered with the first one's response, and the method's writes happen once. Connect
// serves its own protocol, gRPC and gRPC-Web with one handler, and the interceptor stands behind
// all three.
//
//	interceptor, err := connectdedup.New(d, connectdedup.Options{
//		Methods: []string{shopv1connect.OrdersCreateProcedure},
//		Scope:   func(ctx context.Context) (string, error) { return tenantOf(ctx) },
//	})
//	path, handler := shopv1connect.NewOrdersHandler(&orders{}, connect.WithInterceptors(authenticate, interceptor))
//
//	func (s *orders) Create(ctx context.Context, in *connect.Request[shopv1.CreateRequest]) (*connect.Response[shopv1.Order], error) {
//		tx, ok := connectdedup.Tx(ctx)
//		if !ok {
//			return nil, errors.New("Options.Methods does not name this method")
//		}
//		…write through tx, and return
//	}
//
// # The key
//
// A request names its action by a key: its field request_id (AIP-155), a single string at the top
// of the message, or the header Idempotency-Key. A client makes the key once and sends it with
// every retry; [ClientKey] does so. If both are there they must be equal. Key, scope and method are
// the call's identity. The header is read as package httpdedup reads it: as it is, or as a string
// in quotes.
//
// # What is compared
//
// A key that comes again must come with the same request. Requests are compared by their JSON form
// and by the bytes of their unknown fields, nested ones too. So the order of fields and maps does
// not count, and neither does the codec. The field request_id is not compared.
//
// # What is answered
//
// A response is recorded in the handler's transaction, with its unknown fields, and given to every
// later request. The header Idempotency-Replayed is "true" then. The first response's other headers
// and trailers are not recorded: they go with the answer of the run that was committed, and with no
// other.
//
// An error of the handler rolls back, is passed on as it is, and a retry runs the handler again.
// Return a *connect.Error: the text of a database error has values in it. [dedup.Final] around an
// error makes it the answer: its code, message and details are recorded, and its Meta is not. An
// error that is no *connect.Error is recorded as failed_precondition. If a request's context ends
// before the commit, its run is rolled back.
//
// The interceptor's own answers have a google.rpc.ErrorInfo of domain io.github.tooldedup. Its
// metadata has the method, without a slash at the start, as the records have it, and the keys that
// the table lists in lower case. Changed fields have their JSON names, and commas between them:
//
//	reason             code                 what happened; details
//	KEY_REQUIRED       invalid_argument     neither field nor header has a key
//	KEY_INVALID        invalid_argument     the key names no call, or field and header differ
//	ARGUMENTS_INVALID  invalid_argument     the request has no JSON form, or the tool refuses it
//	UNIDENTIFIED       unauthenticated      Options.Scope has an error that is no *connect.Error
//	KEY_REUSED         failed_precondition  another request had the key; changed, complete, created_at
//	EXPIRED            failed_precondition  it was answered, and the answer is not kept; created_at
//	REFUSED            failed_precondition  a tool of the registry refused; code
//	BLOCKED            failed_precondition  it may have taken effect: see dedup.ErrBroken
//	PARKED             failed_precondition  it may have taken effect, and a person finds out; RetryInfo
//	IN_FLIGHT          aborted              an equal request is running; RetryInfo
//	OUTCOME_UNKNOWN    unavailable          the answer to COMMIT was lost; RetryInfo
//	UNAVAILABLE        unavailable          the database is busy or away; RetryInfo
//	TIMEOUT            of the context       the request's context ended; unavailable if it has not
//	FAILED             internal             Options.OnError is told why
//
// A client may send any request again with its key, whatever the code. One with a list of codes
// retries aborted, unavailable and, because a connection that breaks has other codes in some
// protocols, internal, unknown, deadline_exceeded and canceled, unless its own context has ended. A
// RetryInfo's delay is also the header Retry-After, in seconds.
package connectdedup
