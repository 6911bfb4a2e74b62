package notice

import (
	"log/slog"
	"reflect"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/errtext"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/money"
)

// Attrs collects attributes of package slog, without those that are zero.
type Attrs []slog.Attr

func (a *Attrs) add(attr slog.Attr) { *a = append(*a, attr) }

// Text adds a text.
func (a *Attrs) Text(key, value string) {
	if value != "" {
		a.add(slog.String(key, value))
	}
}

// Name adds the name of a model, which may come from a caller and have any length.
func (a *Attrs) Name(key, value string) {
	const most = 256 // bytes
	a.Text(key, errtext.Cut(value, most))
}

// Number adds a number.
func (a *Attrs) Number(key string, value int) {
	if value != 0 {
		a.add(slog.Int(key, value))
	}
}

// Amount adds an amount of money, as a text.
func (a *Attrs) Amount(key string, value money.Amount) {
	if value != 0 {
		a.Text(key, value.String())
	}
}

// Yes adds a fact that holds.
func (a *Attrs) Yes(key string, value bool) {
	if value {
		a.add(slog.Bool(key, value))
	}
}

// Duration adds a duration.
func (a *Attrs) Duration(key string, value time.Duration) {
	if value != 0 {
		a.add(slog.Duration(key, value))
	}
}

// Time adds a time.
func (a *Attrs) Time(key string, value time.Time) {
	if !value.IsZero() {
		a.add(slog.Time(key, value))
	}
}

// Tokens adds the tokens of a call as a group.
func (a *Attrs) Tokens(key string, prompt, output int) {
	if prompt != 0 || output != 0 {
		a.group(key, slog.Int("prompt_tokens", prompt), slog.Int("output_tokens", output))
	}
}

func (a *Attrs) group(key string, of ...slog.Attr) {
	a.add(slog.Attr{Key: key, Value: slog.GroupValue(of...)})
}

// Quota adds a quota, with the keys of files.
func (a *Attrs) Quota(q *state.Quota) {
	var limits Attrs
	for of := range state.Dimensions {
		limits.Number(state.Limits[of].Key, *q.Limit(state.Dimension(of)))
	}
	limits.Text("day_zone", q.DayZone)
	limits.Duration("burst", q.Burst)
	for _, bound := range state.Adaptive {
		limits.Number(bound.Key, *bound.Of(q))
	}
	for _, b := range state.Budgets {
		if limit := b.Of(*q); limit != 0 {
			limits.Text(b.Key, b.Text(limit))
		}
	}
	if len(limits) == 0 {
		limits.add(slog.Bool("unlimited", true))
	}
	a.group("quota", limits...)
}

// FieldsOf returns the fields of a struct as a group, with the keys of JSON. Those that are zero
// are left out, but for truths that JSON always has. Groups in it come last, because a text handler
// of slog that leaves out all of one keeps its name for what follows.
func FieldsOf(of any) slog.Value {
	const most = 1000 // bytes of a text, which may name a model
	var a, groups Attrs
	is := reflect.ValueOf(of)
	for i := range is.NumField() {
		key, options, _ := strings.Cut(is.Type().Field(i).Tag.Get("json"), ",")
		switch value := is.Field(i).Interface().(type) {
		case bool:
			if value || options == "" {
				a.add(slog.Bool(key, value))
			}
		case int:
			a.Number(key, value)
		case money.Amount:
			a.Amount(key, value)
		case time.Duration:
			a.Duration(key, value)
		case time.Time:
			a.Time(key, value)
		case slog.LogValuer:
			if !is.Field(i).IsZero() {
				groups.add(slog.Any(key, value))
			}
		default:
			a.Text(key, errtext.Cut(is.Field(i).String(), most))
		}
	}
	return slog.GroupValue(append(a, groups...)...)
}
