// Layout: the types that the root shows in place of internal ones have the fields of those.

package ratelimit_test

import (
	"cmp"
	"reflect"
	"testing"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
)

func TestLayout(t *testing.T) {
	for _, pair := range [][2]reflect.Type{
		{reflect.TypeFor[ratelimit.UsageStats](), reflect.TypeFor[account.Usage]()},
		{reflect.TypeFor[ratelimit.PoolState](), reflect.TypeFor[verdict.Pool]()},
		{reflect.TypeFor[ratelimit.Waiter](), reflect.TypeFor[verdict.Waiter]()},
	} {
		shown, is := layoutOf(pair[0], "", 0), layoutOf(pair[1], "", 0)
		for i := range max(len(shown), len(is)) {
			if i >= len(shown) || i >= len(is) || shown[i] != is[i] {
				t.Errorf("%v has the fields %v\n%v has %v", pair[0], shown, pair[1], is)
				break
			}
		}
	}
}

// shownAs has the fields that have other names in the root.
var shownAs = map[string]string{"Owner": "account", "Name": "Pool"}

// layout is a field in memory, or a type that one points to.
type layout struct {
	name   string
	offset uintptr
	kind   reflect.Kind
}

// layoutOf returns all fields of a type, and of those that it holds.
func layoutOf(of reflect.Type, name string, offset uintptr) (fields []layout) {
	switch {
	case of.Kind() == reflect.Struct && of.PkgPath() != "time":
		for i := range of.NumField() {
			f := of.Field(i)
			fields = append(fields, layoutOf(f.Type, cmp.Or(shownAs[f.Name], f.Name), offset+f.Offset)...)
		}
		if name != "" { // embedded
			return fields
		}
		name, offset = "the end", offset+of.Size()
	case of.Kind() == reflect.Slice:
		fields = layoutOf(of.Elem(), "", 0)
	case of.Kind() == reflect.Pointer && of != reflect.TypeFor[*account.Account]():
		fields = layoutOf(of.Elem(), "", 0)
	}
	return append(fields, layout{name, offset, of.Kind()})
}
