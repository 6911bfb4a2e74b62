package lives

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// render shows a value: what is zero in it is left out, times are in UTC, what is pointed to is
// shown in place of pointers, and of errors their text. Values that a program cannot tell apart
// look alike.
func render(v any) string {
	var b strings.Builder
	renderTo(&b, reflect.ValueOf(v))
	return b.String()
}

func renderTo(b *strings.Builder, v reflect.Value) {
	if !v.IsValid() {
		b.WriteString("nil")
		return
	}
	if v.CanInterface() {
		switch is := v.Interface().(type) {
		case time.Time:
			b.WriteString(is.UTC().Format("01-02T15:04:05.999999999"))
			return
		case error:
			fmt.Fprintf(b, "%q", is.Error())
			return
		case fmt.Stringer:
			if v.Kind() != reflect.Struct {
				b.WriteString(is.String())
				return
			}
		}
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			b.WriteString("nil")
			return
		}
		renderTo(b, v.Elem())
	case reflect.Struct:
		renderStruct(b, v)
	case reflect.Map:
		var lines []string
		for key, value := range v.Seq2() {
			var line strings.Builder
			fmt.Fprintf(&line, "%q:", key)
			renderTo(&line, value)
			lines = append(lines, line.String())
		}
		slices.Sort(lines)
		fmt.Fprintf(b, "{%s}", strings.Join(lines, " "))
	case reflect.Slice, reflect.Array:
		b.WriteString("[")
		for i := range v.Len() {
			if i > 0 {
				b.WriteString(" ")
			}
			renderTo(b, v.Index(i))
		}
		b.WriteString("]")
	case reflect.String:
		fmt.Fprintf(b, "%q", v.String())
	default:
		fmt.Fprint(b, v)
	}
}

func renderStruct(b *strings.Builder, v reflect.Value) {
	b.WriteString("{")
	first := true
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if !field.IsExported() || isNothing(v.Field(i)) {
			continue
		}
		if !first {
			b.WriteString(" ")
		}
		first = false
		b.WriteString(field.Name + ":")
		renderTo(b, v.Field(i))
	}
	b.WriteString("}")
}

// isNothing reports whether a field is zero. A time may be zero in any zone.
func isNothing(v reflect.Value) bool {
	if at, ok := v.Interface().(time.Time); ok {
		return at.IsZero()
	}
	switch v.Kind() {
	case reflect.Map, reflect.Slice:
		return v.Len() == 0
	}
	return v.IsZero()
}

// differing shortens two texts that differ to where they do.
func differing(a, b string) (string, string) {
	const around = 160
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	cut := func(s string) string {
		from, to := max(at-around, 0), min(at+around, len(s))
		return fmt.Sprintf("…%s…", s[from:to])
	}
	return cut(a), cut(b)
}
