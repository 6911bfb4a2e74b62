package llmhttp

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Each path that a new adapter knows is treated as its table says, with a slash at its end, too.
func TestNewPaths(t *testing.T) {
	variable := regexp.MustCompile(`\{[a-z]+\}`)
	seen := 0
	for _, a := range adapters {
		known, ok := a.(pathLister)
		if !ok {
			continue
		}
		for _, p := range known.paths() {
			seen++
			if p.method == http.MethodGet && p.fate == countedFate {
				continue // a WebSocket
			}
			if day, err := time.Parse(time.DateOnly, p.readOn); p.source != unread && (err != nil || day.Year() < 2026 || !strings.HasPrefix(p.source, "https://")) || p.api == "" {
				t.Errorf("%+v has no source or day", p)
			}
			for _, end := range []string{"", "/"} {
				req, err := http.NewRequest(p.method, "https://llm.test"+variable.ReplaceAllString(p.path, "x")+end, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				var call Call
				matched, _ := new(Transport).recognize(req, &call)
				got := toldFate
				switch {
				case matched != nil && call.Free:
					got = freeFate
				case matched != nil && call.byRequest:
					got = requestsFate
				case matched != nil:
					got = countedFate
				case p.fate == freeFate:
					got = freeFate // no adapter knows it
				}
				if got != p.fate {
					t.Errorf("%s %s%s is %s, and the table says %s", p.method, p.path, end, got, p.fate)
				}
				if matched != nil && strings.Contains(p.path, "{model}") && call.Model != "x" {
					t.Errorf("%s: model %q", p.path, call.Model)
				}
			}
		}
	}
	if seen < 39 {
		t.Errorf("only %d paths", seen)
	}
}

// Neighbours of the known paths belong to no adapter, or are free.
func TestPathsBeside(t *testing.T) {
	for _, path := range []string{
		"/model/x", "/model//converse", "/models/x/converse", "/model/x/converse/y", "/model/converse",
		"/v1/conversations/c/items", "/v1/conversationsx", "/v1/conversations//restart", "/v1/conversations/c/restart/x",
		"/v2/chatx", "/v1/chat", "/v2/embed-jobs", "/v1/rerank", "/api/embedx", "/v1/interactions/i", "/v1/videos/v/content",
		"/v1/projects/p/locations/l/endpoints/x:predict", "/v1/projects/p/locations/l/models/x:rawPredict", "/endpoints/:rawPredict",
	} {
		for _, method := range []string{http.MethodPost, http.MethodGet} {
			req, err := http.NewRequest(method, "https://llm.test"+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			var call Call
			if a, _ := new(Transport).recognize(req, &call); a != nil {
				t.Errorf("%s %s belongs to %s", method, path, a.Name())
			}
		}
	}
	for _, a := range adapters {
		for _, p := range adapterPaths(a) {
			req, _ := http.NewRequest(http.MethodGet, "https://llm.test"+p.path, http.NoBody)
			if a, _ := new(Transport).recognize(req, new(Call)); a != nil {
				t.Errorf("GET %s belongs to %s", p.path, a.Name())
			}
		}
	}
}

func adapterPaths(a Adapter) []knownPath {
	if known, ok := a.(pathLister); ok {
		return known.paths()
	}
	return nil
}
