package retail

import (
	"github.com/tooldedup/dedup/cmd/dedup/internal/recording"
	"github.com/tooldedup/dedup/cmd/dedup/internal/world/tool"
)

// Tools are the shop's tools under the names of the recordings.
func Tools() []tool.Tool {
	return []tool.Tool{
		tool.JSON(name("cancel_pending_order"), recording.Write, CancelOrder),
		tool.JSON(name("modify_pending_order_address"), recording.Write, ModifyOrderAddress),
		tool.JSON(name("modify_pending_order_items"), recording.Write, ModifyItems),
		tool.JSON(name("modify_pending_order_payment"), recording.Write, ModifyPayment),
		tool.JSON(name("modify_user_address"), recording.Write, ModifyUserAddress),
		tool.JSON(name("return_delivered_order_items"), recording.Write, ReturnItems),
		tool.JSON(name("exchange_delivered_order_items"), recording.Write, ExchangeItems),
		tool.JSON(name("get_user_details"), recording.Read, UserDetails),
		tool.JSON(name("get_order_details"), recording.Read, OrderDetails),
		tool.JSON(name("get_product_details"), recording.Read, ProductDetails),
		tool.JSON(name("list_all_product_types"), recording.Read, ProductTypes),
		tool.Text(name("find_user_id_by_email"), recording.Read, FindByEmail),
		tool.Text(name("find_user_id_by_name_zip"), recording.Read, FindByNameZip),
	}
}

func name(name string) tool.Name {
	return tool.Name{Domain: Domain, Tool: name}
}
