package main

import (
	"context"
	"reflect"
)

// reset frees an identity. The older version takes the reason itself where this one takes
// options.
func (c *caller) reset(ctx context.Context, key string) (freed bool, err error) {
	method := reflect.ValueOf(c.d).MethodByName("Reset")
	why := reflect.New(method.Type().In(4)).Elem()
	reason := why
	if why.Kind() == reflect.Struct {
		reason = why.FieldByName("Reason")
	}
	reason.SetString("the test frees it")
	results := method.Call([]reflect.Value{
		reflect.ValueOf(ctx), reflect.ValueOf(scope), reflect.ValueOf(tool), reflect.ValueOf(key), why,
	})
	err, _ = results[1].Interface().(error)
	return results[0].Bool(), err
}
