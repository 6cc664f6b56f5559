package airline

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

// newCertificates are given to a user in turn, each once.
var newCertificates = [...]string{"certificate_3221322", "certificate_3221323", "certificate_3221324"}

// CertificateIn are the arguments of send_certificate.
type CertificateIn struct {
	UserID string     `json:"user_id"`
	Amount kit.Number `json:"amount"`
}

// sendCertificate gives a user a voucher and answers with a sentence. A user who has all three
// gets none and the answer is nil; that, too, is a run to the end and stands in the audit log.
func sendCertificate(ctx context.Context, tx pgx.Tx, in CertificateIn) (answer *string, err error) {
	user, err := users.Lock(ctx, tx, in.UserID)
	if err != nil {
		return nil, err
	}
	for _, id := range newCertificates {
		if _, has := user.PaymentMethods[id]; has {
			continue
		}
		user.PaymentMethods[id] = &PaymentMethod{Source: sourceCertificate, Amount: &in.Amount.Value, ID: id}
		if err := users.Save(ctx, tx, in.UserID, user); err != nil {
			return nil, err
		}
		answer = new(fmt.Sprintf("Certificate %s added to user %s with amount %s.", id, in.UserID, in.Amount))
		break
	}
	return answer, kit.Record(ctx, tx, Domain, "send_certificate", in.UserID)
}
