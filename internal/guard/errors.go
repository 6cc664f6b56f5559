package guard

import "errors"

// ErrInvalid is what every misuse of an effect's transaction is, by [errors.Is].
var ErrInvalid = errors.New("dedup: invalid")

// misuse is one of them.
type misuse struct{ text string }

func (e *misuse) Error() string { return "dedup: " + e.text }

// Is makes errors.Is(err, ErrInvalid) true.
func (e *misuse) Is(target error) bool { return target == ErrInvalid }

var (
	// ErrTxControl: a COMMIT, ROLLBACK, BEGIN or other transaction-control statement was
	// refused. Returned by the methods of the effect's pgx.Tx, and by Verdict.
	ErrTxControl error = &misuse{"the transaction belongs to dedup: return nil to commit, an error to roll back"}

	// ErrTxAborted: the effect returned no error although one of its statements had failed.
	// Returned by Verdict.
	ErrTxAborted error = &misuse{"the effect ignored a failed statement; its transaction was rolled back"}

	// ErrTxBusy: the effect returned while a result set or batch was still open. Returned
	// by Verdict.
	ErrTxBusy error = &misuse{"the effect left a result set open; close its rows before returning"}

	// ErrTxEnded: the transaction was ended inside the effect, past the guard. Statements
	// that are sent now would commit by themselves, so they answer this too. Returned by
	// the methods of the effect's pgx.Tx, and by Verdict.
	ErrTxEnded = errors.New("dedup: the transaction has been ended inside the effect")

	// errPanicked stands for the error of an effect that returned none.
	errPanicked = errors.New("dedup: the effect panicked")
)
