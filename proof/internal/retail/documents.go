// Package retail has the shop's tools: ordinary functions on the transaction
// that they are handed, with typed arguments and results.
//
// Every write tool makes all its checks first, so that a refusal
// (*kit.Refusal) has changed nothing. Rows are locked in one order, orders
// before users, so that no two tools wait for each other. Money is float64,
// summed in the order of the arguments.
package retail

import "encoding/json"

// User is a document of retail_users.
type User struct {
	Name           json.RawMessage           `json:"name"`
	Address        Address                   `json:"address"`
	Email          string                    `json:"email"`
	PaymentMethods map[string]*PaymentMethod `json:"payment_methods"`
	Orders         json.RawMessage           `json:"orders"`
}

// Address is where a user lives or an order goes.
type Address struct {
	Address1 string `json:"address1"`
	Address2 string `json:"address2"`
	City     string `json:"city"`
	State    string `json:"state"`
	Country  string `json:"country"`
	Zip      string `json:"zip"`
}

// Order is a document of retail_orders. The fields after PaymentHistory are
// absent until a tool sets them.
type Order struct {
	OrderID        string          `json:"order_id"`
	UserID         string          `json:"user_id"`
	Address        Address         `json:"address"`
	Items          []Item          `json:"items"`
	Fulfillments   json.RawMessage `json:"fulfillments"`
	Status         string          `json:"status"`
	PaymentHistory []Payment       `json:"payment_history"`

	CancelReason string `json:"cancel_reason,omitempty"`

	ReturnItems           []string `json:"return_items,omitzero"`
	ReturnPaymentMethodID string   `json:"return_payment_method_id,omitempty"`

	ExchangeItems           []string `json:"exchange_items,omitzero"`
	ExchangeNewItems        []string `json:"exchange_new_items,omitzero"`
	ExchangePaymentMethodID string   `json:"exchange_payment_method_id,omitempty"`
	ExchangePriceDifference *float64 `json:"exchange_price_difference,omitempty"`
}

// What the tools ask for and set as an order's status.
const (
	statusPending           = "pending"
	statusItemModified      = "pending (item modified)"
	statusCancelled         = "cancelled"
	statusDelivered         = "delivered"
	statusReturnRequested   = "return requested"
	statusExchangeRequested = "exchange requested"
)

// Item is one piece of an order.
type Item struct {
	Name      string          `json:"name"`
	ProductID string          `json:"product_id"`
	ItemID    string          `json:"item_id"`
	Price     float64         `json:"price"`
	Options   json.RawMessage `json:"options"`
}

// Payment is one line of an order's payment history.
type Payment struct {
	TransactionType string  `json:"transaction_type"`
	Amount          float64 `json:"amount"`
	PaymentMethodID string  `json:"payment_method_id"`
}

// Transaction types of a payment.
const (
	payment = "payment"
	refund  = "refund"
)

// Product is a document of retail_products.
type Product struct {
	Name      string             `json:"name"`
	ProductID string             `json:"product_id"`
	Variants  map[string]Variant `json:"variants"`
}

// Variant is one form in which a product is sold.
type Variant struct {
	ItemID    string          `json:"item_id"`
	Options   json.RawMessage `json:"options"`
	Available bool            `json:"available"`
	Price     float64         `json:"price"`
}
