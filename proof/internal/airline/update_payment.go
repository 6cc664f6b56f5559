package airline

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

// payUpdate charges the price of a change to a method of the reservation's
// user and notes it; a negative price is a refund. It refuses before it
// changes anything, and stores the user but not the reservation.
func payUpdate(ctx context.Context, tx pgx.Tx, reservation *Reservation, paymentID string, price float64) error {
	user, err := lockOwner(ctx, tx, reservation)
	if err != nil {
		return err
	}
	method, ok := user.PaymentMethods[paymentID]
	switch {
	case !ok:
		return kit.Refuse("payment method not found")
	case method.Source == sourceCertificate:
		return kit.Refuse("certificate cannot be used to update reservation")
	case !method.covers(price):
		return kit.Refuse("gift card balance is not enough")
	}
	if price == 0 {
		return nil
	}
	reservation.PaymentHistory = append(reservation.PaymentHistory, Payment{PaymentID: paymentID, Amount: price})
	if method.Source != sourceGiftCard {
		return nil
	}
	method.charge(price)
	return saveUser(ctx, tx, reservation.UserID, user)
}
