package retail

import (
	"github.com/tooldedup/dedup/proof/internal/world/kit"
	"github.com/tooldedup/dedup/tool"
)

// Tools are the shop's tools under the names of the recordings. A change that
// overwrites is a Write all the same: every run stands in the audit log.
func Tools() []kit.Tool {
	return []kit.Tool{
		kit.Define("cancel_pending_order", tool.Destructive, CancelOrder),
		kit.Define("modify_pending_order_address", tool.Write, ModifyOrderAddress),
		kit.Define("modify_pending_order_items", tool.Destructive, ModifyItems),
		kit.Define("modify_pending_order_payment", tool.Write, ModifyPayment),
		kit.Define("modify_user_address", tool.Write, ModifyUserAddress),
		kit.Define("return_delivered_order_items", tool.Write, ReturnItems),
		kit.Define("exchange_delivered_order_items", tool.Write, ExchangeItems),
		kit.Define("get_user_details", tool.ReadOnly, UserDetails),
		kit.Define("get_order_details", tool.ReadOnly, OrderDetails),
		kit.Define("get_product_details", tool.ReadOnly, ProductDetails),
		kit.Define("list_all_product_types", tool.ReadOnly, ProductTypes),
		kit.Define("find_user_id_by_email", tool.ReadOnly, FindByEmail),
		kit.Define("find_user_id_by_name_zip", tool.ReadOnly, FindByNameZip),
	}
}
