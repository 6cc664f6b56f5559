package airline

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/effect"
	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

// newCertificates are given to a user in turn, each once.
var newCertificates = [...]string{"certificate_3221322", "certificate_3221323", "certificate_3221324"}

// SendCertificateIn are the arguments of send_certificate.
type SendCertificateIn struct {
	UserID string     `json:"user_id"`
	Amount kit.Number `json:"amount"`
}

// SendCertificate gives a user a voucher and answers with a sentence. A user
// who has all three gets none and the answer is nil; that, too, is a run to
// the end and stands in the audit log.
func SendCertificate(ctx context.Context, tx pgx.Tx, in SendCertificateIn) (*string, error) {
	user, err := lockUser(ctx, tx, in.UserID)
	if err != nil {
		return nil, err
	}
	id, ok := nextCertificate(user)
	if !ok {
		return nil, effect.Record(ctx, tx, Domain, "send_certificate", in.UserID)
	}
	user.PaymentMethods[id] = &PaymentMethod{Source: sourceCertificate, Amount: &in.Amount.Value, ID: id}
	if err := saveUser(ctx, tx, in.UserID, user); err != nil {
		return nil, err
	}
	answer := fmt.Sprintf("Certificate %s added to user %s with amount %s.", id, in.UserID, in.Amount)
	return &answer, effect.Record(ctx, tx, Domain, "send_certificate", in.UserID)
}

func nextCertificate(user *User) (string, bool) {
	for _, id := range newCertificates {
		if _, has := user.PaymentMethods[id]; !has {
			return id, true
		}
	}
	return "", false
}
