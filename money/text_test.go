// Amounts as text: what is printed, what is read, what is refused with which words.

package money_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/money"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]money.Amount{
		"$12.50":                         12_500_000,
		"12.50":                          12_500_000,
		"12.5":                           12_500_000,
		"$5":                             5_000_000,
		"$5.":                            5_000_000,
		"$.50":                           500_000,
		"0":                              0,
		"-0":                             0,
		"-$0.00":                         0,
		"$0.000001":                      1,
		"-$0.000001":                     -1,
		"-.25":                           -250_000,
		"007.10":                         7_100_000,
		"1.2500000000000":                1_250_000,
		strings.Repeat("0", 100) + "1.5": 1_500_000,
		"$9223372036854.775807":          money.Max,
		"-9223372036854.775808":          money.Min,
	} {
		if got, err := money.Parse(text); got != want || err != nil {
			t.Errorf("Parse(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const syntax = "invalid syntax, want dollars such as $12.50 or 12.50"
	for text, want := range map[string]string{
		"":                      syntax,
		"$":                     syntax,
		"-":                     syntax,
		".":                     syntax,
		"$-1":                   syntax,
		"+1":                    syntax,
		"--1":                   syntax,
		"$$1":                   syntax,
		"1$":                    syntax,
		"12.50 USD":             syntax,
		"$ 1":                   syntax,
		" 1":                    syntax,
		"1,000":                 syntax,
		"12,50":                 syntax,
		"1_000":                 syntax,
		"1.2.3":                 syntax,
		"1.-2":                  syntax,
		"1e3":                   syntax,
		"0x10":                  syntax,
		"NaN":                   syntax,
		"Inf":                   syntax,
		"€5":                    syntax,
		"٣":                     syntax,
		"1.\x00":                syntax,
		"\xff":                  syntax,
		"1.2345678x":            syntax,
		"0.0000001":             "invalid syntax, more than 6 decimals",
		"-$1.2345678":           "invalid syntax, more than 6 decimals",
		"$9223372036854.775808": "value out of range",
		"-9223372036854.775809": "value out of range",
		"18446744073709.551616": "value out of range",
		strings.Repeat("9", 30): "value out of range",
	} {
		_, err := money.Parse(text)
		if message := fmt.Sprintf("parse amount %q: %s", text, want); err == nil || err.Error() != message {
			t.Errorf("Parse(%q): %v, want %s", text, err, message)
		}
		ranged := strings.HasSuffix(want, "range")
		if errors.Is(err, strconv.ErrRange) != ranged || errors.Is(err, strconv.ErrSyntax) == ranged {
			t.Errorf("Parse(%q): %v does not match its error", text, err)
		}
	}
	if _, err := money.Parse(strings.Repeat("x", 10_000)); err == nil || len(err.Error()) > 200 {
		t.Errorf("a long text: %v", err)
	}
}

// form is what Parse may accept.
var form = regexp.MustCompile(`\A(-?)\$?([0-9]+\.?[0-9]*|\.[0-9]+)\z`)

// FuzzParse compares with rational numbers: all texts of the form that are whole micro-dollars
// within the ends are read, exactly, and nothing else is.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "$12.50", "12.50", "-$0.000001", ".5", "5.", "1e3", "0.0000001", "9223372036854.775808", "-9223372036854.775808", "$-1", "1,5"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := money.Parse(text)
		want, ok := exactly(text)
		if ok != (err == nil) || got != want {
			t.Fatalf("Parse(%q) = %v, %v, want %v, %v", text, got, err, want, ok)
		}
		if err != nil {
			return
		}
		if again, err := money.Parse(got.String()); again != got || err != nil {
			t.Errorf("%v was printed as %s and read as %v, %v", int64(got), got, again, err)
		}
	})
}

// exactly returns the amount that a text states, by rational numbers.
func exactly(text string) (money.Amount, bool) {
	parts := form.FindStringSubmatch(text)
	if parts == nil {
		return 0, false
	}
	number, ok := new(big.Rat).SetString(parts[1] + "0" + strings.TrimSuffix(parts[2], "."))
	if !ok {
		return 0, false
	}
	number.Mul(number, big.NewRat(int64(money.Dollar), 1))
	if !number.IsInt() || !number.Num().IsInt64() {
		return 0, false
	}
	return money.Amount(number.Num().Int64()), true
}

// String has two decimals at least, six at most, and no zero more than that. All of it comes back.
func FuzzString(f *testing.F) {
	for _, a := range edges {
		f.Add(int64(a))
	}
	printed := regexp.MustCompile(`\A-?\$(0|[1-9][0-9]*)\.[0-9]{2}([0-9]{0,3}[1-9])?\z`)
	f.Fuzz(func(t *testing.T, micros int64) {
		a := money.Amount(micros)
		text, err := a.MarshalText()
		if err != nil || string(text) != a.String() || !printed.Match(text) {
			t.Errorf("%d is %s, as text %s, %v", micros, a, text, err)
		}
		if got, ok := exactly(string(text)); !ok || got != a {
			t.Errorf("%d is %s, which is %d", micros, text, int64(got))
		}
	})
}

// JSON has strings for programs that are exact, and numbers for people who write them.
func TestJSON(t *testing.T) {
	type limits struct {
		Day   money.Amount            `json:"day"`
		Month money.Amount            `json:"month,omitempty"`
		Of    map[string]money.Amount `json:"of,omitempty"`
		By    map[money.Amount]int    `json:"by,omitempty"`
	}
	for text, want := range map[string]string{
		`{"day": "$12.50"}`:          `{"day":"$12.50"}`,
		`{"day": "12.50"}`:           `{"day":"$12.50"}`,
		`{"day": 12.50, "month": 0}`: `{"day":"$12.50"}`,
		`{"day": -0.000001}`:         `{"day":"-$0.000001"}`,
		`{"day": "\u00245"}`:         `{"day":"$5.00"}`,
		`{"day": null}`:              `{"day":"$1.00"}`,
		`{}`:                         `{"day":"$1.00"}`,
		`{"of": {"a": 1, "b": "2"}}`: `{"day":"$1.00","of":{"a":"$1.00","b":"$2.00"}}`,
		`{"by": {"$1.50": 3}}`:       `{"day":"$1.00","by":{"$1.50":3}}`,
	} {
		l := limits{Day: money.Dollar}
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if got, err := json.Marshal(l); string(got) != want || err != nil {
			t.Errorf("%s became %s, %v, want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		`{"day": "12,50"}`:    `parse amount "12,50": invalid syntax, want dollars such as $12.50 or 12.50`,
		`{"day": ""}`:         `parse amount "": invalid syntax, want dollars such as $12.50 or 12.50`,
		`{"day": 1e3}`:        `parse amount "1e3": invalid syntax, want dollars such as $12.50 or 12.50`,
		`{"day": 0.1234567}`:  `parse amount "0.1234567": invalid syntax, more than 6 decimals`,
		`{"day": 1e13}`:       `parse amount "1e13": invalid syntax, want dollars such as $12.50 or 12.50`,
		`{"day": true}`:       `parse amount "true": invalid syntax, want dollars such as $12.50 or 12.50`,
		`{"day": {"usd": 1}}`: `parse amount "{\"usd\": 1}": invalid syntax, want dollars such as $12.50 or 12.50`,
		`{"day": [1]}`:        `parse amount "[1]": invalid syntax, want dollars such as $12.50 or 12.50`,
	} {
		l := limits{Day: money.Dollar}
		err := json.Unmarshal([]byte(text), &l)
		if err == nil || err.Error() != want || l.Day != money.Dollar {
			t.Errorf("%s: %v, and %v, want %s", text, err, l.Day, want)
		}
	}
}

// FuzzUnmarshalJSON compares with Parse of what the decoder makes of a text: a string or a number
// of dollars is read, null changes nothing, and all else is refused. What is no JSON does no harm.
func FuzzUnmarshalJSON(f *testing.F) {
	for _, text := range []string{``, `null`, `"$1"`, `"`, `"\`, ` 1 `, `"\u0031"`, `12.50`, `{}`, ` "0"`, `["1"]`, `true`, `1e3`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		const before = money.Amount(7)
		a := before
		if err := a.UnmarshalJSON(data); err != nil && a != before {
			t.Errorf("%q is %v, %v", data, a, err)
		}
		a = before
		err := json.Unmarshal(data, &a)
		want, ok := dollarsIn(data, before)
		if a != want || (err == nil) != ok {
			t.Errorf("%q is %v, %v, want %v, %v", data, a, err, want, ok)
		}
	})
}

// dollarsIn returns the amount in a JSON text, before for null, and whether there is one.
func dollarsIn(data []byte, before money.Amount) (money.Amount, bool) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if !json.Valid(data) || decoder.Decode(&value) != nil {
		return before, false
	}
	switch value := value.(type) {
	case nil:
		return before, true
	case string:
		if a, err := money.Parse(value); err == nil {
			return a, true
		}
	case json.Number:
		if a, err := money.Parse(value.String()); err == nil {
			return a, true
		}
	}
	return before, false
}

func TestFlag(t *testing.T) {
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	var a money.Amount
	flags.TextVar(&a, "budget", money.USD(12.50), "")
	if a != money.USD(12.50) || flags.Lookup("budget").DefValue != "$12.50" {
		t.Errorf("the default is %v", a)
	}
	if err := flags.Parse([]string{"-budget", "3.20"}); err != nil || a != money.USD(3.20) {
		t.Errorf("got %v, %v", a, err)
	}
	if err := flags.Parse([]string{"-budget", "much"}); err == nil || a != money.USD(3.20) {
		t.Errorf("got %v, %v", a, err)
	}
}
