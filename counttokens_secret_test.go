// Counters show their keys nowhere.

package ratelimit_test

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"gopkg.in/yaml.v3"
)

func TestCountersShowNoKey(t *testing.T) {
	const key, base = "sk-secret", "https://proxy.example/v1"
	type in struct{ Counter any }
	counters := map[string][2]any{
		"TokenCounter":          {ratelimit.TokenCounter{BaseURL: base, APIKey: key}, &ratelimit.TokenCounter{BaseURL: base, APIKey: key}},
		"OpenAITokenCounter":    {ratelimit.OpenAITokenCounter{BaseURL: base, APIKey: key}, &ratelimit.OpenAITokenCounter{BaseURL: base, APIKey: key}},
		"AnthropicTokenCounter": {ratelimit.AnthropicTokenCounter{BaseURL: base, APIKey: key}, &ratelimit.AnthropicTokenCounter{BaseURL: base, APIKey: key}},
	}
	for name, both := range counters {
		for _, c := range both {
			shown := map[string]string{"Sprint": fmt.Sprint(c), "Sprintln": fmt.Sprintln("of", c)}
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T%v", "%10.3v"} {
				shown[verb] = fmt.Sprintf(verb, c)
				shown[verb+" in a struct"] = fmt.Sprintf(verb, in{c})
				shown[verb+" in a list"] = fmt.Sprintf(verb, []any{c})
			}
			for format, encode := range map[string]func(any) ([]byte, error){"json": json.Marshal, "yaml": yaml.Marshal, "xml": xml.Marshal} {
				text, err := encode(in{c})
				if err != nil {
					t.Error(err)
				}
				shown[format] = string(text)
			}
			var logged strings.Builder
			slog.New(slog.NewTextHandler(&logged, nil)).Info("", "counter", c, "in", in{c})
			slog.New(slog.NewJSONHandler(&logged, nil)).Info("", "counter", c, "in", in{c})
			shown["slog"] = logged.String()
			for by, text := range shown {
				// %x writes the text in hex where it does not refuse to.
				if strings.Contains(text, "secret") || strings.Contains(text, fmt.Sprintf("%x", key)) {
					t.Errorf("%s: %s shows %s", name, by, text)
				}
			}
			if want := fmt.Sprintf("ratelimit.%s{BaseURL:%q, APIKey:%q}", name, base, "(hidden)"); shown["%+v"] != want || shown["%#v"] != want {
				t.Errorf("%s prints %s and %s, want %s", name, shown["%+v"], shown["%#v"], want)
			}
		}
	}
}
