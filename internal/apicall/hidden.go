package apicall

import (
	"fmt"
	"net/url"
	"strings"
)

// Hidden is the text that stands for a value with a key wherever the value is printed, logged or
// encoded. Types with a key have its methods. It is safe for concurrent use.
type Hidden string

// Hide returns the text for a value of a type, by pairs of the names and the texts of its fields.
// The text of a BaseURL loses its password, and that of a field whose name ends in Key is hidden.
// Empty fields are left out.
func Hide(typ string, fields ...string) Hidden {
	var shown []string
	for i := 0; i+1 < len(fields); i += 2 {
		name, text := fields[i], fields[i+1]
		switch {
		case text == "":
			continue
		case strings.HasSuffix(name, "Key"):
			text = "(hidden)"
		case name == "BaseURL":
			text = redacted(text)
		}
		shown = append(shown, fmt.Sprintf("%s:%q", name, text))
	}
	return Hidden(typ + "{" + strings.Join(shown, ", ") + "}")
}

// redacted returns a base URL without what may be secret in it.
func redacted(base string) string {
	u, err := url.Parse(base)
	if err != nil || u.Opaque != "" {
		return "(not valid)"
	}
	u.RawQuery, u.Fragment = "", ""
	return u.Redacted()
}

// Format writes the text in place of the value, with any verb and flag.
func (h Hidden) Format(f fmt.State, verb rune) {
	switch verb {
	case 'v':
		verb = 's' // else %#v quotes it
		fallthrough
	case 's', 'q':
		fmt.Fprintf(f, fmt.FormatString(f, verb), string(h))
	default:
		fmt.Fprintf(f, "%%!%c(%s)", verb, string(h))
	}
}

// MarshalText returns the text, which encoders of JSON, YAML, XML and package slog write.
func (h Hidden) MarshalText() ([]byte, error) { return []byte(h), nil }
