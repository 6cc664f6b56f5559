package retail

import (
	"strings"

	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

const giftCard = "gift_card"

// PaymentMethod is a card or account of a user. Only a gift card has a
// balance.
type PaymentMethod struct {
	Source   string   `json:"source"`
	Brand    string   `json:"brand,omitempty"`
	LastFour string   `json:"last_four,omitempty"`
	Balance  *float64 `json:"balance,omitempty"`
	ID       string   `json:"id"`
}

// covers reports whether the method can pay price. All but a gift card can.
func (m *PaymentMethod) covers(price float64) bool {
	return m.Source != giftCard || m.balance() >= price
}

// charge takes price off a gift card, to the cent; a negative price is put on
// it. Other methods are charged elsewhere.
func (m *PaymentMethod) charge(price float64) {
	if m.Source == giftCard {
		m.setBalance(m.balance() - price)
	}
}

// refund puts amount back on a gift card, to the cent.
func (m *PaymentMethod) refund(amount float64) {
	m.setBalance(m.balance() + amount)
}

func (m *PaymentMethod) balance() float64 {
	if m.Balance == nil {
		return 0
	}
	return *m.Balance
}

func (m *PaymentMethod) setBalance(balance float64) {
	balance = kit.Round2(balance)
	m.Balance = &balance
}

// namesGiftCard tells a gift card by its id, as refunds and returns do: the
// method itself may not be at hand.
func namesGiftCard(id string) bool {
	return strings.Contains(id, giftCard)
}
