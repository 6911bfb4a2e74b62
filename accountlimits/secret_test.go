package accountlimits_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/accountlimits"
)

// No way to print, log or encode a reader of limits shows its key.
func TestReadersShowNoKey(t *testing.T) {
	const key = "sk-admin-secret"
	type in struct{ Of any }
	tests := map[string][]any{
		`accountlimits.OpenAI{Project:"proj_1", AdminKey:"(hidden)"}`: {
			accountlimits.OpenAI{AdminKey: key, Project: "proj_1"}, &accountlimits.OpenAI{AdminKey: key, Project: "proj_1"},
		},
		`accountlimits.Anthropic{Workspace:"wrkspc_1", BaseURL:"https://a.example", AdminKey:"(hidden)"}`: {
			accountlimits.Anthropic{AdminKey: key, Workspace: "wrkspc_1", BaseURL: "https://a.example"},
			&accountlimits.Anthropic{AdminKey: key, Workspace: "wrkspc_1", BaseURL: "https://a.example"},
		},
		`accountlimits.OpenRouter{BaseURL:"https://a.example", Key:"(hidden)"}`: {
			accountlimits.OpenRouter{Key: key, BaseURL: "https://a.example"}, &accountlimits.OpenRouter{Key: key, BaseURL: "https://a.example"},
		},
	}
	for want, both := range tests {
		for _, of := range both {
			var shown strings.Builder
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
				fmt.Fprintf(&shown, verb+"\n", of)
				fmt.Fprintf(&shown, verb+"\n", in{of})
			}
			slog.New(slog.NewTextHandler(&shown, nil)).Info("", "of", of, "in", in{of})
			slog.New(slog.NewJSONHandler(&shown, nil)).Info("", "of", of, "in", in{of})
			encoded, err := json.Marshal(in{of})
			if err != nil {
				t.Error(err)
			}
			if all := shown.String() + string(encoded); strings.Contains(all, "secret") || strings.Contains(all, fmt.Sprintf("%x", key)) {
				t.Errorf("shows its key:\n%s", all)
			}
			if got := fmt.Sprintf("%v %+v %#v", of, of, of); got != want+" "+want+" "+want {
				t.Errorf("prints %s, want %s", got, want)
			}
		}
	}
}
