// Amounts of package money: a file may say $12.50 and 12.50.

package yamlfile

import (
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"dappco.re/go/core/go-ratelimit/money"
)

type spending struct {
	Day    money.Amount           `yaml:"max_spend_per_day,omitempty"`
	Prices map[string]money.Price `yaml:"prices,omitempty"`
}

func TestDecodeMoney(t *testing.T) {
	for text, want := range map[string]money.Amount{
		"$12.50":             money.USD(12.50),
		"12.50":              money.USD(12.50),
		"12.5 # dollars":     money.USD(12.50),
		"'$12.50'":           money.USD(12.50),
		`"12.50"`:            money.USD(12.50),
		"5":                  money.USD(5),
		".5":                 money.USD(0.50),
		"-$1":                money.USD(-1),
		"0":                  0,
		"1000000000000.0001": 1_000_000_000_000*money.Dollar + 100*money.Micro, // more digits than a float has
		"":                   money.Cent,
		"~":                  money.Cent,
	} {
		document := "max_spend_per_day: " + text
		got := spending{Day: money.Cent}
		if err := DecodeConfig(strings.NewReader(document), &got); err != nil || got.Day != want {
			t.Errorf("%s: %v, %v, want %v", document, got.Day, err, want)
		}
		var plain spending // by the YAML library alone, for which null is zero
		err := yaml.Unmarshal([]byte(document), &plain)
		if isNull := text == "" || text == "~"; err != nil || !isNull && plain.Day != want {
			t.Errorf("%s: %v, %v by the library, want %v", document, plain.Day, err, want)
		}
	}
	for text, want := range map[string]string{
		"12,50":     `line 1: max_spend_per_day: parse amount "12,50": invalid syntax, want dollars such as $12.50 or 12.50`,
		"1_000":     `line 1: max_spend_per_day: parse amount "1_000": invalid syntax, want dollars such as $12.50 or 12.50`,
		"1e3":       `line 1: max_spend_per_day: parse amount "1e3": invalid syntax, want dollars such as $12.50 or 12.50`,
		".inf":      `line 1: max_spend_per_day: parse amount ".inf": invalid syntax, want dollars such as $12.50 or 12.50`,
		"0.0000001": `line 1: max_spend_per_day: parse amount "0.0000001": invalid syntax, more than 6 decimals`,
		"[1]":       `line 1: max_spend_per_day: a list is not a text`,
	} {
		got := spending{Day: money.Cent}
		err := DecodeConfig(strings.NewReader("max_spend_per_day: "+text), &got)
		if err == nil || err.Error() != want || got.Day != money.Cent {
			t.Errorf("%s: %v, %v, want %s", text, got.Day, err, want)
		}
	}
}

// What the YAML library writes, both read.
func TestDecodeMoneyWritten(t *testing.T) {
	want := spending{Day: money.USD(12.50), Prices: map[string]money.Price{
		"m": {Input: money.USD(3), CachedInput: money.USD(0.30), CacheWrite: money.USD(3.75), Output: money.USD(15)},
		"n": {Input: money.USD(0.02)},
	}}
	text, err := yaml.Marshal(want)
	const document = "max_spend_per_day: $12.50\nprices:\n    m:\n        input: $3.00\n        cached_input: $0.30\n" +
		"        cache_write: $3.75\n        output: $15.00\n    \"n\":\n        input: $0.02\n"
	if string(text) != document || err != nil {
		t.Errorf("wrote %v\n%s", err, text)
	}
	var got spending
	if err := DecodeConfig(strings.NewReader(document), &got); err != nil || got.Day != want.Day ||
		len(got.Prices) != 2 || got.Prices["m"] != want.Prices["m"] || got.Prices["n"] != want.Prices["n"] {
		t.Errorf("read %+v, %v", got, err)
	}
}
