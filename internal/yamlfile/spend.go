package yamlfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/errtext"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// spendKeys are the keys of what was spent: the amounts, and the ends of their periods. The last
// ones are left out where nothing counts.
var spendKeys = []struct {
	key    string
	amount func(*state.Spend) *int64
	time   func(*state.Spend) *int64 // where the key is that of a time
	unit   *state.Unit               // of the amount
	list   func(*state.Spend) *state.Payments
}{
	{key: "day", unit: &state.Dollars, amount: func(s *state.Spend) *int64 { return (*int64)(&s.Day.Spent) }},
	{key: "day_begin", time: func(s *state.Spend) *int64 { return &s.Day.Begin }},
	{key: "day_end", time: func(s *state.Spend) *int64 { return &s.Day.End }},
	{key: "month", unit: &state.Dollars, amount: func(s *state.Spend) *int64 { return (*int64)(&s.Month.Spent) }},
	{key: "month_begin", time: func(s *state.Spend) *int64 { return &s.Month.Begin }},
	{key: "month_end", time: func(s *state.Spend) *int64 { return &s.Month.End }},
	{key: "tokens", unit: &state.Tokens, amount: func(s *state.Spend) *int64 { return &s.Tokens.Spent }},
	{key: "tokens_begin", time: func(s *state.Spend) *int64 { return &s.Tokens.Begin }},
	{key: "tokens_end", time: func(s *state.Spend) *int64 { return &s.Tokens.End }},
	{key: "recent", list: func(s *state.Spend) *state.Payments { return &s.Recent }},
}

// isBlank reports whether a key is left out, as it was before there were such limits.
func isBlank(key string, s *state.Spend) bool {
	if key == "recent" {
		return s.Recent == ""
	}
	return strings.HasPrefix(key, "tokens") && s.Tokens == (state.Period[int64]{})
}

// spend writes the section of that name, if there is anything to write.
func (w *encoder) spend(of string, spends map[string]state.Spend) {
	if len(spends) == 0 {
		return
	}
	w.section(of+"spend", len(spends))
	for _, model := range slices.Sorted(maps.Keys(spends)) {
		s := spends[model]
		w.model(model)
		for _, k := range spendKeys {
			switch {
			case isBlank(k.key, &s):
			case k.amount != nil:
				w.text(k.key, k.unit.Text(*k.amount(&s)))
			case k.list != nil:
				w.text(k.key, k.list(&s).Text())
			default:
				w.buf = append(append(append(w.buf, "        "...), k.key...), ": "...)
				w.instant(time.Unix(0, *k.time(&s)))
			}
		}
	}
}

func (b snapshotBuilder) spend(model string, n *yaml.Node) error {
	var s state.Spend
	err := eachField(n, func(key string, value *yaml.Node) (err error) {
		for _, k := range spendKeys {
			switch {
			case k.key != key:
			case k.amount != nil:
				*k.amount(&s), err = valueOf(value, k.unit)
			case k.list != nil:
				*k.list(&s), err = state.ParsePayments(value.Value)
			default:
				var t time.Time
				t, err = timeOf(value)
				*k.time(&s) = clock.UnixNano(t)
			}
		}
		return err
	})
	if err == nil {
		err = s.Check(false)
	}
	b.Spend[model] = s
	return err
}

// valueOf reads a value of zero or more.
func valueOf(n *yaml.Node, unit *state.Unit) (int64, error) {
	if n.Kind != yaml.ScalarNode || isNull(n) {
		return 0, wrongType(n, unit.Form)
	}
	value, err := unit.Parse(n.Value)
	switch {
	case err != nil:
		return 0, wrongType(n, unit.Form)
	case value < 0:
		return 0, fmt.Errorf("%s is negative", errtext.Clip(n.Value))
	}
	return value, nil
}

func (p *lineScanner) spend(snapshot *state.Snapshot, model string, indent int) error {
	if _, exists := snapshot.Spend[model]; exists {
		return inField("spend", inField(model, errDuplicate))
	}
	var s state.Spend
	err := p.fields(indent, func(key string) error {
		for _, k := range spendKeys {
			switch {
			case k.key != key:
			case k.amount != nil:
				return p.unit(key, k.unit, k.amount(&s))
			case k.list != nil:
				text, err := p.value(key)
				if err != nil {
					return err
				}
				if *k.list(&s), err = state.ParsePayments(string(text)); err != nil {
					return err
				}
				return p.next()
			default:
				var t time.Time
				err := p.time(key, &t)
				*k.time(&s) = clock.UnixNano(t)
				return err
			}
		}
		return errLayout
	})
	if err == nil {
		err = s.Check(false)
	}
	snapshot.Spend[model] = s
	return err
}

// unit reads a value as Encode writes it.
func (p *lineScanner) unit(key string, unit *state.Unit, into *int64) error {
	text, err := p.value(key)
	if err != nil {
		return err
	}
	value, err := unit.Parse(string(text))
	if err != nil || value < 0 || unit.Text(value) != string(text) {
		return errLayout
	}
	*into = value
	return p.next()
}
