package dedup

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// annotate adds the call's names to the library's errors, and the tool's name to an effect's misuse
// of its transaction. It returns the effect's own errors and refusals unchanged.
func annotate(of table.Identity, err error) error {
	switch typed := err.(type) {
	case nil, *toolError, *RefusedError:
		return err
	case *effectError:
		if isMisuse(typed.err) {
			return &toolError{of.Tool, hideCallErrors(typed.err)}
		}
		if _, final := errors.AsType[*finalError](typed.err); final {
			return err // NotFinal has precedence over the mark of Final
		}
		return hideCallErrors(typed.err)
	case *Error:
		if typed.Tool == "" && validateName("Tool", of.Tool) == nil {
			named := *typed // several calls may share it
			named.Scope, named.Tool, named.KeyHash = of.Scope, of.Tool, KeyHash(of.Key)
			return &named
		}
		return err
	}
	if _, typed := errors.AsType[*InvalidError](err); !typed && errors.Is(err, ErrInvalid) && !wire.IsContextError(err) && !IsTransient(err) {
		err = misused(err)
	}
	if named, ok := errors.AsType[*Error](err); ok && named.Tool != "" || validateName("Tool", of.Tool) != nil {
		return err
	}
	return &toolError{of.Tool, err}
}

// toolError adds the tool's name to an error of the library.
type toolError struct {
	tool string
	err  error
}

// isMisuse reports whether an effect's error is about the effect's transaction. It is false for the
// error of a call inside the effect.
func isMisuse(err error) bool {
	if _, named := errors.AsType[*toolError](err); named || !errors.Is(err, ErrInvalid) || wire.IsContextError(err) || IsTransient(err) {
		return false
	}
	invalid, ok := errors.AsType[*InvalidError](err)
	return !ok || invalid.What == "effect"
}

// Error implements error.
func (e *toolError) Error() string {
	return fmt.Sprintf("%stool %q: %s", errorPrefix, e.tool, strings.TrimPrefix(e.err.Error(), errorPrefix))
}

// Unwrap returns the error without the name.
func (e *toolError) Unwrap() error { return e.err }

// effectError marks an error of an effect or of a caller's statement. It hides the errors of other
// calls in it: if an effect returns the ErrRefused of an inner DoTx, the effect failed, but its own
// call did not refuse. An InvalidError in it is found, and is not about the effect's own call.
type effectError struct{ err error }

// byEffect marks an error as the effect's.
func byEffect(err error) error {
	if _, marked := err.(*effectError); marked || err == nil {
		return err
	}
	return &effectError{err}
}

// unmarked returns the error that byEffect marked, and any other error unchanged.
func unmarked(err error) error {
	if marked, ok := err.(*effectError); ok {
		return marked.err
	}
	return err
}

// hideCallErrors returns an effect's error for the caller. errors.Is does not find an inner call's
// error in it. The error keeps its mark if another call in the effect was invalid.
func hideCallErrors(err error) error {
	if invalid, ok := errors.AsType[*InvalidError](err); ok && invalid.What == "call" {
		return byEffect(err)
	}
	for _, callErr := range callErrors() {
		if errors.Is(err, callErr) {
			return &effectError{err}
		}
	}
	return err
}

// callErrors returns the errors that tell how a call ended, and so belong to that call only.
func callErrors() [9]error {
	return [...]error{
		ErrInFlight, ErrOutcomeUnknown, ErrAttemptsExhausted, ErrRestartTx, ErrRefused, ErrExpired, ErrKeyReused, ErrBroken, ErrSchema,
	}
}

// Error implements error.
func (e *effectError) Error() string { return e.err.Error() }

// OfEffect tells the doors that the error is an effect's, and so not about the client's input.
func (e *effectError) OfEffect() bool { return true }

// Is is [errors.Is] of the effect's error, except for errors of calls.
func (e *effectError) Is(target error) bool {
	for _, callErr := range callErrors() {
		if target == callErr {
			return false
		}
	}
	return errors.Is(e.err, target)
}

// As is [errors.As] of the effect's error, except for errors of calls.
func (e *effectError) As(target any) bool {
	switch target.(type) {
	case **Error, **RefusedError:
		return false
	}
	return errors.As(e.err, target)
}

// joinErr returns err with another error that followed it.
func joinErr(err, other error) error {
	switch {
	case err == nil:
		return other
	case other == nil:
		return err
	}
	if _, effects := err.(*effectError); effects {
		return byEffect(fmt.Errorf("%w (and %w)", unmarked(err), other))
	}
	return fmt.Errorf("%w (and %w)", err, other)
}

// contextError joins the cause of a context to its error, so that errors.Is finds both.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || cause == err {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// withContext adds the context's error to err, unless err contains it.
func withContext(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(err, ctx.Err()) && errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("dedup: %w: %w", contextError(ctx), err)
}

// redact returns err. If err wraps a server's error that quotes the row's values, it returns that
// server error without them. Use it for errors of the library's own statements.
func redact(err error) error {
	var server *pgconn.PgError
	if errors.As(err, &server) && quotesValues(server) {
		return withoutDetail(server)
	}
	return err
}

// quotesValues reports whether a server error has a field that quotes row values.
func quotesValues(err *pgconn.PgError) bool {
	return err.Detail != "" || err.Where != "" || err.InternalQuery != ""
}

// withoutDetail returns a copy of a server error without the fields that quote row values. Detail
// contains the key in the clear.
func withoutDetail(err *pgconn.PgError) *pgconn.PgError {
	clean := *err
	clean.Detail, clean.Where, clean.InternalQuery = "", "", ""
	return &clean
}

// hintPooler adds a hint to errors that a transaction pooler causes.
func hintPooler(err error) error {
	if state := wire.SQLState(err); state == wire.CodePreparedExists || state == wire.CodePreparedMissing {
		return fmt.Errorf("behind a transaction pooler that does not track prepared statements (PgBouncer before 1.21) set default_query_exec_mode to exec or cache_describe: %w", err)
	}
	return err
}
