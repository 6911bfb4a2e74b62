package money

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// decimals is how many decimals of a dollar an amount has.
const decimals = 6

// String returns the amount in dollars, such as $12.50 or -$0.000001, with two to six decimals.
func (a Amount) String() string {
	var buf [32]byte
	return string(a.append(buf[:0]))
}

func (a Amount) append(b []byte) []byte {
	if a < 0 {
		b = append(b, '-')
	}
	size := magnitude(int64(a))
	b = strconv.AppendUint(append(b, '$'), size/uint64(Dollar), 10)
	point := len(b)
	b = strconv.AppendUint(b, uint64(Dollar)+size%uint64(Dollar), 10) // 1 and all decimals
	b[point] = '.'
	for len(b) > point+1+2 && b[len(b)-1] == '0' {
		b = b[:len(b)-1]
	}
	return b
}

// Parse returns the amount that a text states in dollars: $12.50, 12.50, $5 or -$0.000001. It is
// exact: more than six decimals are refused unless the rest are zeros. There are no spaces, signs
// other than "-", separators of thousands, or exponents. The error quotes the text, and matches
// strconv.ErrSyntax or, beyond Max and Min, strconv.ErrRange.
func Parse(text string) (Amount, error) {
	a, err := parse(text)
	if err != nil {
		return 0, fmt.Errorf("parse amount %.64q: %w", text, err)
	}
	return a, nil
}

var (
	errSyntax   = fmt.Errorf("%w, want dollars such as $12.50 or 12.50", strconv.ErrSyntax)
	errDecimals = fmt.Errorf("%w, more than %d decimals", strconv.ErrSyntax, decimals)
)

func parse(text string) (Amount, error) {
	unsigned, negative := strings.CutPrefix(text, "-")
	whole, part, _ := strings.Cut(strings.TrimPrefix(unsigned, "$"), ".")
	if whole+part == "" || strings.Trim(whole+part, "0123456789") != "" {
		return 0, errSyntax
	}
	part = strings.TrimRight(part, "0")
	if len(part) > decimals {
		return 0, errDecimals
	}
	size, err := strconv.ParseUint(whole+part+strings.Repeat("0", decimals-len(part)), 10, 64)
	most := uint64(Max)
	if negative {
		most = magnitude(int64(Min))
	}
	switch {
	case err != nil || size > most:
		return 0, strconv.ErrRange
	case negative:
		return -Amount(size), nil
	}
	return Amount(size), nil
}

// MarshalText returns the text of String. It implements [encoding.TextMarshaler], so that an amount
// is a string in JSON, and never fails.
func (a Amount) MarshalText() ([]byte, error) { return a.append(nil), nil }

// UnmarshalText sets the amount to what Parse makes of the text. On an error it is unchanged. It
// implements [encoding.TextUnmarshaler], by which YAML reads $12.50 and 12.50 alike.
func (a *Amount) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err == nil {
		*a = parsed
	}
	return err
}

// UnmarshalJSON sets the amount to a string or a number of dollars, as Parse reads them: "$12.50",
// "12.50" or 12.50. Null changes nothing, nor does an error. It implements [json.Unmarshaler].
func (a *Amount) UnmarshalJSON(data []byte) error {
	text := string(data)
	switch {
	case text == "null":
		return nil
	case strings.HasPrefix(text, `"`):
		if err := json.Unmarshal(data, &text); err != nil {
			return fmt.Errorf("parse amount %.64q: %w", data, err)
		}
	}
	return a.UnmarshalText([]byte(text))
}
