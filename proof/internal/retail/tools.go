package retail

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/kit"
	"github.com/tooldedup/dedup/tool"
)

// Domain is the name under which the shop's tools and tables go.
const Domain = "retail"

var (
	users    = kit.Table[User]{Domain: Domain, Name: "users", ID: "user_id", Missing: "user not found"}
	orders   = kit.Table[Order]{Domain: Domain, Name: "orders", ID: "order_id", Missing: "order not found"}
	products = kit.Table[Product]{Domain: Domain, Name: "products", ID: "product_id", Missing: "product not found"}
)

// Tools are the shop's tools under the names of the recordings.
func Tools() []kit.Tool {
	return []kit.Tool{
		change("cancel_pending_order", tool.Destructive, statusPending, "non-pending order cannot be cancelled", cancel),
		change("modify_pending_order_address", tool.Write, statusPending, "non-pending order cannot be modified", sendElsewhere),
		change("modify_pending_order_items", tool.Destructive, statusPending, "non-pending order cannot be modified", modifyItems),
		change("modify_pending_order_payment", tool.Write, statusPending, "non-pending order cannot be modified", modifyPayment),
		kit.Change("modify_user_address", tool.Write, users, move),
		change("return_delivered_order_items", tool.Write, statusDelivered, "non-delivered order cannot be returned", returnItems),
		change("exchange_delivered_order_items", tool.Write, statusDelivered, "non-delivered order cannot be exchanged", exchangeItems),
		kit.Show[UserIn]("get_user_details", users),
		kit.Show[OrderIn]("get_order_details", orders),
		kit.Show[ProductIn]("get_product_details", products),
		kit.Define("list_all_product_types", tool.ReadOnly, productTypes),
		kit.Define("find_user_id_by_email", tool.ReadOnly, findByEmail),
		kit.Define("find_user_id_by_name_zip", tool.ReadOnly, findByNameZip),
	}
}

// change makes a tool that changes an order which has a status, and refuses any other with wrong.
func change[In kit.Subject](name string, class tool.Class, status, wrong string, rule kit.Rule[In, Order]) kit.Tool {
	return kit.Change(name, class, orders, func(ctx context.Context, tx pgx.Tx, order *Order, in In) error {
		if order.Status != status {
			return kit.Refuse("%s", wrong)
		}
		return rule(ctx, tx, order, in)
	})
}
