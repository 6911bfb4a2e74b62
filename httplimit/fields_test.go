package httplimit_test

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/httplimit"
	"dappco.re/go/core/go-ratelimit/keyed"
)

func TestFields(t *testing.T) {
	left := math.MaxInt - 1 // of the largest limit
	daily := func(namespace string, limit int) keyed.Request {
		return keyed.Request{Namespace: namespace, Limit: limit, Window: 24 * time.Hour}
	}
	for _, test := range []struct {
		name    string
		options httplimit.Options
		before  int // requests
		policy  string
		current string
		retry   string
		legacy  string // limit, remaining, reset
	}{
		{
			name:    "one",
			options: httplimit.Options{Limits: all(perMinute("requests", 100))},
			policy:  `"requests";q=100;w=60`, current: `"requests";r=99;t=61`, legacy: "100 99 61",
		},
		{
			name:    "the closest first",
			options: httplimit.Options{Limits: all(perMinute("requests", 100), perMinute("b", 4), perMinute("c", 5))},
			policy:  `"requests";q=100;w=60, "b";q=4;w=60, "c";q=5;w=60`,
			current: `"b";r=3;t=61, "requests";r=99;t=61, "c";r=4;t=61`, legacy: "4 3 61",
		},
		{
			name:    "only those that refuse",
			options: httplimit.Options{Limits: all(perMinute("requests", 100), perMinute("b", 2))},
			before:  2,
			policy:  `"requests";q=100;w=60, "b";q=2;w=60`,
			current: `"b";r=0;t=61`, retry: "61", legacy: "2 0 61",
		},
		{
			name:    "the longest wait",
			options: httplimit.Options{Limits: all(perMinute("a", 1), daily("b", 1), perMinute("c", 1))},
			before:  1,
			policy:  `"a";q=1;w=60, "b";q=1;w=86400, "c";q=1;w=60`,
			current: `"b";r=0;t=86401, "a";r=0;t=61, "c";r=0;t=61`, retry: "86401", legacy: "1 0 86401",
		},
		{
			name: "too large",
			options: httplimit.Options{
				Limits: all(perMinute("a", 10)), Cost: func(*http.Request, keyed.Request) int { return 11 },
			},
			policy: `"a";q=10;w=60`, current: `"a";r=10`, legacy: "10 10",
		},
		{
			name: "a unit of its own",
			options: httplimit.Options{
				Limits: all(perMinute("requests", 10), perMinute("tokens", 10)),
				Settle: map[string]httplimit.Settle{"tokens": nil},
			},
			policy:  `"requests";q=10;w=60, "tokens";q=10;w=60;qu="tokens"`,
			current: `"requests";r=9;t=60, "tokens";r=9;t=60`, legacy: "10 9 60",
		},
		{
			name: "only the end of others helps",
			options: httplimit.Options{
				Limits: all(perMinute("tokens", 1)), Settle: map[string]httplimit.Settle{"tokens": nil},
			},
			before: -1,
			policy: `"tokens";q=1;w=60;qu="tokens"`, current: `"tokens";r=0;t=1`, retry: "1", legacy: "1 0 1",
		},
		{
			name:    "in flight",
			options: httplimit.Options{Limits: all(perMinute("a", 9)), InFlight: func(string) int { return 3 }},
			policy:  `"a";q=9;w=60, "in-flight";q=3;qu="concurrent-requests"`,
			current: `"in-flight";r=2, "a";r=8;t=61`, legacy: "3 2",
		},
		{
			name:    "too many in flight",
			options: httplimit.Options{Limits: all(perMinute("a", 9)), InFlight: func(string) int { return 1 }},
			before:  -1,
			policy:  `"in-flight";q=1;qu="concurrent-requests"`, current: `"in-flight";r=0;t=1`, retry: "1", legacy: "1 0 1",
		},
		{
			name:    "one namespace, two windows",
			options: httplimit.Options{Limits: all(perMinute("tokens", 10), daily("tokens", 100), perMinute("a", 100))},
			policy:  `"tokens-60";q=10;w=60, "tokens-86400";q=100;w=86400, "a";q=100;w=60`,
			current: `"tokens-60";r=9;t=61, "tokens-86400";r=99;t=86401, "a";r=99;t=61`, legacy: "10 9 61",
		},
		{
			name: "one namespace, one window, two keys",
			options: httplimit.Options{Limits: all(perMinute("tokens", 10),
				keyed.Request{Namespace: "tokens", Key: "company", Limit: 20, Window: time.Minute})},
			policy:  `"tokens-60-1";q=10;w=60, "tokens-60-2";q=20;w=60`,
			current: `"tokens-60-1";r=9;t=61, "tokens-60-2";r=19;t=61`, legacy: "10 9 61",
		},
		{
			name: "a window of less than a second",
			options: httplimit.Options{Limits: all(
				keyed.Request{Namespace: "a", Limit: 10, Window: time.Millisecond},
				keyed.Request{Namespace: "b", Limit: 20, Window: 1500 * time.Millisecond})},
			policy: `"a";q=10;w=1, "b";q=20;w=2`, current: `"a";r=9;t=1, "b";r=19;t=2`, legacy: "10 9 1",
		},
		{
			name:    "more than a structured field can tell",
			options: httplimit.Options{Limits: all(perMinute("a", math.MaxInt))},
			policy:  fmt.Sprintf(`"a";q=%d;w=60`, min(999_999_999_999_999, math.MaxInt)),
			current: fmt.Sprintf(`"a";r=%d;t=61`, min(left, min(999_999_999_999_999, math.MaxInt))),
			legacy:  fmt.Sprintf("%d %d 61", math.MaxInt, left),
		},
		{
			name:    "no ASCII",
			options: httplimit.Options{Limits: all(perMinute("a\"\\é\n", 2))},
			policy:  `"a\"\\%C3%A9%0A";q=2;w=60`, current: `"a\"\\%C3%A9%0A";r=1;t=61`, legacy: "2 1 61",
		},
		{name: "no limits", options: httplimit.Options{Limits: all()}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				testFields(t, test.options, test.before, test.policy, test.current, test.retry, test.legacy)
			})
		})
	}
}

// testFields makes a request after some others, which have ended, or within one if before is
// negative, and compares the fields of the response with and without Legacy.
func testFields(t *testing.T, o httplimit.Options, before int, policy, current, retry, legacy string) {
	for _, withLegacy := range []bool{true, false} {
		atMinute()
		time.Sleep(-time.Duration(time.Now().Unix()%86400)*time.Second + 24*time.Hour) // a day begins, too
		o.Key, o.Legacy = tenant, withLegacy
		o.Limiter = newLimiter(t)
		var h http.Handler
		var w *httptest.ResponseRecorder
		deep := before >= 0
		h = httplimit.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			if !deep {
				deep = true
				w = get(h, "a")
			}
		}), o)
		for range before {
			get(h, "a")
		}
		if last := get(h, "a"); w == nil {
			w = last
		}
		var old []string
		for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
			if value := w.Header().Get(name); value != "" {
				old = append(old, value)
			}
		}
		if !withLegacy {
			legacy = ""
		}
		for _, field := range []struct{ name, got, want string }{
			{"RateLimit-Policy", w.Header().Get("RateLimit-Policy"), policy},
			{"RateLimit", w.Header().Get("RateLimit"), current},
			{"Retry-After", w.Header().Get("Retry-After"), retry},
			{"X-RateLimit", strings.Join(old, " "), legacy},
		} {
			if field.got != field.want {
				t.Errorf("%s: %s\n     want %s", field.name, field.got, field.want)
			}
		}
	}
}

// A Handler around another adds to its fields, as lists may.
func TestFieldsOfTwoHandlers(t *testing.T) {
	inner := httplimit.Handler(ok, httplimit.Options{Key: tenant, Limits: all(perMinute("tenant", 5))})
	outer := httplimit.Handler(inner, httplimit.Options{
		Key: func(*http.Request) string { return "all" }, Limits: all(perMinute("server", 9)),
	})
	w := get(outer, "a")
	if got := w.Header()["Ratelimit-Policy"]; !slices.Equal(got, []string{`"server";q=9;w=60`, `"tenant";q=5;w=60`}) {
		t.Errorf("%q", got)
	}
}

// The legacy fields are those of one limit, also with two Handlers.
func TestLegacyOfTwoHandlers(t *testing.T) {
	inner := httplimit.Handler(ok, httplimit.Options{Key: tenant, InFlight: func(string) int { return 3 }, Legacy: true})
	outer := httplimit.Handler(inner, httplimit.Options{Key: tenant, Limits: all(perMinute("server", 9)), Legacy: true})
	h := get(outer, "a").Header()
	if limit, reset := h.Get("X-RateLimit-Limit"), h.Values("X-RateLimit-Reset"); limit != "3" || len(reset) > 0 {
		t.Errorf("limit %s, reset %q", limit, reset)
	}
}

// item is a member of a list of a structured field: a string with parameters.
type item struct {
	name   string
	params map[string]string // a string with its quotes
}

// parseList parses a list of strings with parameters as RFC 9651 has it, and nothing else.
func parseList(s string) (list []item, err error) {
	for {
		var i item
		if i.name, s, err = parseString(s); err != nil {
			return nil, err
		}
		i.params = make(map[string]string)
		for strings.HasPrefix(s, ";") {
			key, rest, found := strings.Cut(s[1:], "=")
			if !found || key == "" || strings.Trim(key, "abcdefghijklmnopqrstuvwxyz") != "" {
				return nil, fmt.Errorf("parameter at %q", s)
			}
			var value string
			if strings.HasPrefix(rest, `"`) {
				if value, s, err = parseString(rest); err != nil {
					return nil, err
				}
				value = strconv.Quote(value)
			} else {
				end := strings.IndexAny(rest+",", ";,")
				value, s = rest[:end], rest[end:]
				if n, err := strconv.ParseInt(value, 10, 64); err != nil || n < 0 || len(value) > 15 {
					return nil, fmt.Errorf("integer %q", value)
				}
			}
			i.params[key] = value
		}
		list = append(list, i)
		if s == "" {
			return list, nil
		}
		if !strings.HasPrefix(s, ", ") {
			return nil, fmt.Errorf("end of an item at %q", s)
		}
		s = s[2:]
	}
}

func parseString(s string) (value, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		return "", "", fmt.Errorf("no string at %q", s)
	}
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return value, s[i+1:], nil
		case c == '\\':
			if i++; i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", "", fmt.Errorf("escape in %q", s)
			}
			value += s[i : i+1]
		case c < ' ' || c > '~':
			return "", "", fmt.Errorf("byte %#x in %q", c, s)
		default:
			value += s[i : i+1]
		}
	}
	return "", "", fmt.Errorf("open string %q", s)
}

// FuzzFields has limits of any name, size and cost. The fields must be valid and agree with the
// decision.
func FuzzFields(f *testing.F) {
	f.Add("requests", "tokens", 10, 1000, int64(60e9), int64(86400e9), 1, 3)
	f.Add("a", "a", 1, 1, int64(1e9), int64(1e9), 1, 2)
	f.Add("\"", "\\\x00\xff", math.MaxInt, 1, int64(1e6), int64(400*86400e9), math.MaxInt, 1)
	f.Add("in-flight", "in-flight-0", 5, 6, int64(7e9), int64(7e9), 6, 1)
	f.Fuzz(func(t *testing.T, name, other string, limit, otherLimit int, window, otherWindow int64, cost, requests int) {
		limits := []keyed.Request{
			{Namespace: name, Limit: limit, Window: time.Duration(window)},
			{Namespace: other, Limit: otherLimit, Window: time.Duration(otherWindow), Cost: cost},
		}
		var d httplimit.Decision
		h := httplimit.Handler(ok, httplimit.Options{
			Limiter: newLimiter(t), Key: tenant, Limits: all(limits...), Legacy: true,
			InFlight:   func(string) int { return 2 },
			OnDecision: func(decision httplimit.Decision) { d = decision },
		})
		for range min(max(requests, 1), 5) {
			w := get(h, "a")
			if (w.Code == 200) != d.OK {
				t.Fatalf("%d for %+v", w.Code, d)
			}
			checkFields(t, w.Header(), d)
		}
	})
}

// checkFields checks the fields of a response against the decision.
func checkFields(t *testing.T, h http.Header, d httplimit.Decision) {
	policies, err := parseList(h.Get("RateLimit-Policy"))
	if err != nil {
		t.Fatal(err)
	}
	if want := len(d.Decisions) + 1; len(policies) != want {
		t.Errorf("%d policies, want %d: %q", len(policies), want, h)
	}
	names := make(map[string]bool)
	for _, p := range policies {
		names[p.name] = true
		if p.params["q"] == "" || p.params["w"] == "0" {
			t.Errorf("policy %+v", p)
		}
	}
	if len(names) != len(policies) {
		t.Errorf("names are not unique: %q", h)
	}
	if d.Reason == httplimit.Failed {
		return // RateLimit has no refusing limit to show
	}
	current, err := parseList(h.Get("RateLimit"))
	if err != nil {
		t.Fatal(err)
	}
	longest := int64(0)
	for _, c := range current {
		if !names[c.name] || c.params["r"] == "" {
			t.Errorf("%+v belongs to no policy: %q", c, h)
		}
		reset, _ := strconv.ParseInt(c.params["t"], 10, 64)
		longest = max(longest, reset)
	}
	if retry := h.Get("Retry-After"); d.OK && retry != "" || !d.OK && !d.Never() && retry != strconv.FormatInt(longest, 10) {
		t.Errorf("Retry-After %q, the longest reset is %d: %+v", retry, longest, d)
	}
}
