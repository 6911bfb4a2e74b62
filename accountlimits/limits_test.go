package accountlimits_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/accountlimits"
)

// quotas are what Limits returns.
type quotas = map[string]ratelimit.ModelQuota

// The replies in Anthropic's documentation, and what others report of the API.
var (
	opus = `{"type":"rate_limit","group_type":"model_group","models":["claude-opus-4-5","claude-opus-4-5-20251101"],"limits":[` +
		`{"type":"requests_per_minute","value":4000},{"type":"input_tokens_per_minute","value":10000000},` +
		`{"type":"output_tokens_per_minute","value":800000}]}`
	haiku = `{"id":"x","type":"rate_limit","group_type":"model_group","models":["claude-haiku-4-5"],"limits":[` +
		`{"type":"requests_per_minute","value":50},{"type":"input_tokens_per_minute_cache_aware","value":50000},` +
		`{"type":"fast_itpmca","value":1.5},{"type":"output_tokens_per_minute","value":10000},{"type":"new","value":null}]}`
	batch = `{"type":"rate_limit","group_type":"batch","models":null,"limits":[{"type":"enqueued_batch_requests","value":500000},` +
		`{"type":"requests_per_minute","value":5}]}`
	opusHere = `{"type":"workspace_rate_limit","group_type":"model_group","models":["claude-opus-4-5","claude-opus-4-5-20251101"],` +
		`"limits":[{"type":"requests_per_minute","value":1000,"org_limit":4000},` +
		`{"type":"input_tokens_per_minute","value":500000,"org_limit":10000000}]}`

	opusLimits     = ratelimit.ModelQuota{MaxRPM: 4000, MaxITPM: 10_000_000, MaxOTPM: 800_000}
	haikuLimits    = ratelimit.ModelQuota{MaxRPM: 50, MaxITPM: 50_000, MaxOTPM: 10_000}
	opusHereLimits = ratelimit.ModelQuota{MaxRPM: 1000, MaxITPM: 500_000, MaxOTPM: 800_000}
)

func serve(t *testing.T, p http.Handler) string {
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	return server.URL
}

func TestAnthropicLimits(t *testing.T) {
	for _, c := range []struct {
		name     string
		provider *provider
		path     string // behind the server's address
		source   accountlimits.Anthropic
		want     quotas
		asked    []string
	}{
		{
			name: "an organization", provider: &provider{organization: []string{opus, batch, haiku}},
			want:  quotas{"claude-opus-4-5": opusLimits, "claude-opus-4-5-20251101": opusLimits, "claude-haiku-4-5": haikuLimits},
			asked: []string{"/v1/organizations/rate_limits"},
		}, {
			name: "pages", provider: &provider{organization: []string{opus, batch, haiku}, pageSize: 1}, path: "/v1/",
			want: quotas{"claude-opus-4-5": opusLimits, "claude-opus-4-5-20251101": opusLimits, "claude-haiku-4-5": haikuLimits},
			asked: []string{
				"/v1/organizations/rate_limits", "/v1/organizations/rate_limits?page=page%2B%2F%3D1",
				"/v1/organizations/rate_limits?page=page%2B%2F%3D2",
			},
		}, {
			name:     "a workspace",
			provider: &provider{organization: []string{opus, haiku}, workspace: []string{opusHere}},
			source:   accountlimits.Anthropic{Workspace: "wrkspc_1"},
			want:     quotas{"claude-opus-4-5": opusHereLimits, "claude-opus-4-5-20251101": opusHereLimits, "claude-haiku-4-5": haikuLimits},
			asked:    []string{"/v1/organizations/rate_limits", "/v1/organizations/workspaces/wrkspc_1/rate_limits"},
		}, {
			name:     "a workspace without limits of its own",
			provider: &provider{organization: []string{haiku}},
			source:   accountlimits.Anthropic{Workspace: "wrkspc_1"},
			want:     quotas{"claude-haiku-4-5": haikuLimits},
			asked:    []string{"/v1/organizations/rate_limits", "/v1/organizations/workspaces/wrkspc_1/rate_limits"},
		}, {
			name:     "a workspace that was given more than the organization has",
			provider: &provider{organization: []string{strings.ReplaceAll(opus, "4000", "9")}, workspace: []string{opusHere}},
			source:   accountlimits.Anthropic{Workspace: "wrkspc_1"},
			want: quotas{
				"claude-opus-4-5":          {MaxRPM: 9, MaxITPM: 500_000, MaxOTPM: 800_000},
				"claude-opus-4-5-20251101": {MaxRPM: 9, MaxITPM: 500_000, MaxOTPM: 800_000},
			},
		}, {
			name: "nothing", provider: &provider{}, want: quotas{},
		}, {
			name: "what says nothing of a model's calls",
			provider: &provider{organization: []string{
				`{}`, `{"models":["a"]}`, `{"models":["b"],"limits":[{"type":"requests_per_minute","value":0},{"type":"x","value":-1}]}`,
				`{"models":["*","claude-*",""," ","c\u0000","` + strings.Repeat("x", 257) + `"],"limits":[{"type":"requests_per_minute","value":1}]}`,
				`{"models":["d","d"],"limits":[{"type":"requests_per_minute","value":7},{"type":"requests_per_minute","value":6}]}`,
				`{"models":["d"],"limits":[{"type":"requests_per_minute","value":8},{"type":"output_tokens_per_minute","value":1099511627776}]}`,
			}},
			want: quotas{"d": {MaxRPM: 6, MaxOTPM: int(min(1<<40, uint64(^uint(0)>>1)))}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := c.source
			source.AdminKey, source.BaseURL = adminKey, serve(t, c.provider)+c.path
			got, err := source.Limits(t.Context())
			if err != nil || !maps.Equal(got, c.want) {
				t.Errorf("got %v, %v\nwant %v", got, err, c.want)
			}
			if asked := strings.Join(c.provider.asked, " "); c.asked != nil && asked != strings.Join(c.asked, " ") {
				t.Errorf("asked %s", asked)
			}
		})
	}
}

func TestOpenAILimits(t *testing.T) {
	var many []string
	wantMany := make(quotas)
	for i := range 250 {
		many = append(many, fmt.Sprintf(`{"model":"m%d","max_requests_per_1_minute":%d,"max_tokens_per_1_minute":7}`, i, i+1))
		wantMany[fmt.Sprint("m", i)] = ratelimit.ModelQuota{MaxRPM: i + 1, MaxTPM: 7}
	}
	const path = "/v1/organization/projects/proj_1/rate_limits?"
	for _, c := range []struct {
		name    string
		project []string
		path    string // behind the server's address
		want    quotas
		asked   []string
	}{
		{
			name: "a project",
			project: []string{
				`{"model":"gpt-5","max_requests_per_1_minute":500,"max_tokens_per_1_minute":500000,"batch_1_day_max_input_tokens":1500000}`,
				`{"model":"gpt-4o-mini","max_requests_per_1_minute":500,"max_tokens_per_1_minute":200000,"max_requests_per_1_day":10000}`,
				`{"model":"dall-e-3","max_requests_per_1_minute":5,"max_tokens_per_1_minute":0,"max_images_per_1_minute":5,"max_audio_megabytes_per_1_minute":1.5}`,
			},
			want: quotas{
				"gpt-5":       {MaxRPM: 500, MaxTPM: 500_000},
				"gpt-4o-mini": {MaxRPM: 500, MaxTPM: 200_000, MaxRPD: 10_000},
				"dall-e-3":    {MaxRPM: 5},
			},
			asked: []string{path + "limit=100"},
		}, {
			name: "pages", project: many, path: "/v1",
			want:  wantMany,
			asked: []string{path + "limit=100", path + "after=rl-99&limit=100", path + "after=rl-199&limit=100"},
		}, {
			name: "nothing", want: quotas{},
		}, {
			name: "what says nothing of a model's calls",
			project: []string{
				`{}`, `{"model":"a"}`, `{"max_requests_per_1_minute":5}`, `{"model":"*","max_requests_per_1_minute":5}`,
				`{"model":"b","max_requests_per_1_minute":null,"max_requests_per_1_day":5}`, `{"model":"b","max_requests_per_1_day":4}`,
			},
			want: quotas{"b": {MaxRPD: 4}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &provider{project: c.project}
			got, err := accountlimits.OpenAI{AdminKey: adminKey, Project: "proj_1", BaseURL: serve(t, p) + c.path}.Limits(t.Context())
			if err != nil || !maps.Equal(got, c.want) {
				t.Errorf("got %v, %v\nwant %v", got, err, c.want)
			}
			if asked := strings.Join(p.asked, " "); c.asked != nil && asked != strings.Join(c.asked, " ") {
				t.Errorf("asked %s", asked)
			}
		})
	}
}

// roundTrip is a transport made of a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func response(r *http.Request, status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: make(http.Header), Body: io.NopCloser(strings.NewReader(body)), Request: r}
}

// sources are one of each kind over a transport.
func sources(over roundTrip) map[string]accountlimits.Source {
	client := &http.Client{Transport: over}
	return map[string]accountlimits.Source{
		"Anthropic": accountlimits.Anthropic{AdminKey: adminKey, Client: client},
		"OpenAI":    accountlimits.OpenAI{AdminKey: adminKey, Project: "p", Client: client},
	}
}

func TestLimitsAsksTheProvider(t *testing.T) {
	for name, source := range sources(func(r *http.Request) (*http.Response, error) {
		return response(r, 200, `{"data":[{"models":["`+r.URL.String()+`"],"limits":[{"type":"requests_per_minute","value":1}],"model":"`+
			r.URL.String()+`","max_requests_per_1_minute":1}]}`), nil
	}) {
		got, err := source.Limits(t.Context())
		want := map[string]string{
			"Anthropic": "https://api.anthropic.com/v1/organizations/rate_limits",
			"OpenAI":    "https://api.openai.com/v1/organization/projects/p/rate_limits?limit=100",
		}[name]
		if err != nil || got[want].MaxRPM != 1 {
			t.Errorf("%s: asked %v, %v, want %s", name, got, err, want)
		}
	}
}

// A key comes in by a header, and in no other way out.
func TestLimitsKeepsTheKey(t *testing.T) {
	for _, c := range []struct {
		name string
		over roundTrip
		want string // in the error
	}{
		{"in a message", func(r *http.Request) (*http.Response, error) {
			return response(r, 401, `{"error":{"message":"no `+adminKey+`"}}`), nil
		}, "status 401: no ***"},
		{"in an error", func(r *http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("cannot send %v", r.Header)
		}, "cannot send map["},
		{"in a reply", func(r *http.Request) (*http.Response, error) {
			return response(r, 200, `{"data":[{"models":["`+adminKey+`"],"limits":[{"type":"requests_per_minute","value":"`+adminKey+
				`"}],"model":"`+adminKey+`","max_requests_per_1_minute":"`+adminKey+`"}]}`), nil
		}, "is no integer of 0 to 1099511627776"},
		{"to another place", func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "elsewhere.example" {
				return nil, errors.New("followed")
			}
			moved := response(r, 307, "")
			moved.Header.Set("Location", "https://elsewhere.example/"+adminKey)
			return moved, nil
		}, "status 307: Temporary Redirect"},
	} {
		for name, source := range sources(c.over) {
			got, err := source.Limits(t.Context())
			if got != nil || err == nil || !strings.HasPrefix(err.Error(), "read limits of "+name+": ") ||
				!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), adminKey[:12]) {
				t.Errorf("%s, %s: got %v, %v, want an error with %s", name, c.name, got, err, c.want)
			}
		}
	}
}

func TestLimitsRefusesReplies(t *testing.T) {
	const noList = "reply is not a JSON object with a list named data"
	const noNumber = `data[1]: %s is no integer of 0 to 1099511627776`
	anthropic := func(value string) string {
		return `{"data":[{},{"models":["m"],"limits":[{"type":"output_tokens_per_minute","value":` + value + `}]}]}`
	}
	openAI := func(value string) string {
		return `{"data":[{"model":"a"},{"model":"m","max_requests_per_1_day":` + value + `}]}`
	}
	type replies struct{ anthropic, openAI string }
	tooMany := replies{`{"data":[{"limits":[{"type":"requests_per_minute","value":1}],"models":["x"`, `{"data":[{}`}
	for i := range 10_000 {
		tooMany.anthropic += fmt.Sprintf(`,"m%d"`, i)
		tooMany.openAI += fmt.Sprintf(`,{"model":"m%d","max_requests_per_1_minute":1}`, i)
	}
	tooMany.anthropic += `]}]}`
	tooMany.openAI += `,{"model":"x","max_requests_per_1_minute":1}]}`
	for _, c := range []struct {
		replies
		want string // %s is the name of the limit
	}{
		{replies{``, ``}, noList},
		{replies{`[]`, `null`}, noList},
		{replies{`{}`, `{"data":null}`}, noList},
		{replies{`{"data":{}}`, `{"data":"` + adminKey + `"}`}, noList},
		{replies{`{"data":[]`, `{"data":[]} x`}, noList},
		{replies{anthropic(`-1`), openAI(`-1`)}, noNumber},
		{replies{anthropic(`1.5`), openAI(`1.0`)}, noNumber},
		{replies{anthropic(`1e3`), openAI(`1e3`)}, noNumber},
		{replies{anthropic(`1099511627777`), openAI(`1099511627777`)}, noNumber},
		{replies{anthropic(`9223372036854775808`), openAI(strings.Repeat("9", 5000))}, noNumber},
		{replies{anthropic(`"12"`), openAI(`"12"`)}, noNumber},
		{replies{anthropic(`{}`), openAI(`[]`)}, noNumber},
		{replies{anthropic(`true`), openAI(`false`)}, noNumber},
		{replies{`{"data":[],"next_page":"same"}`, `{"data":[],"has_more":true,"last_id":"same"}`}, "one that names itself the next"},
		{replies{strings.Repeat(" ", 1<<20) + `{"data":[]}`, strings.Repeat(" ", 1<<20) + `{"data":[]}`}, "reply is larger than 1048576 bytes"},
		{tooMany, "reply has more than 10000 models"},
	} {
		for name, source := range sources(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Host, "anthropic") {
				return response(r, 200, c.anthropic), nil
			}
			return response(r, 200, c.openAI), nil
		}) {
			want := strings.ReplaceAll(c.want, "%s", map[string]string{"Anthropic": "output_tokens_per_minute", "OpenAI": "max_requests_per_1_day"}[name])
			got, err := source.Limits(t.Context())
			if got != nil || err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%s, %.60s %.60s: got %d limits, %v, want %s", name, c.anthropic, c.openAI, len(got), err, want)
			}
		}
	}
	_, err := accountlimits.OpenAI{Client: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		return response(r, 200, `{"data":[],"has_more":true}`), nil
	})}, Project: "p"}.Limits(t.Context())
	if err == nil || err.Error() != "read limits of OpenAI: reply has more pages and no last_id" {
		t.Errorf("no last_id: %v", err)
	}
	_, err = accountlimits.OpenAI{Project: " "}.Limits(t.Context())
	if err == nil || err.Error() != "read limits of OpenAI: the field Project is blank" {
		t.Errorf("no project: %v", err)
	}
	_, err = accountlimits.Anthropic{BaseURL: "https://a?b"}.Limits(t.Context())
	if err == nil || err.Error() != "read limits of Anthropic: BaseURL has a query or a fragment" {
		t.Errorf("a bad BaseURL: %v", err)
	}
	_, err = accountlimits.Anthropic{BaseURL: serve(t, &provider{}), AdminKey: adminKey, Workspace: "gone"}.Limits(t.Context())
	if want := `read limits of Anthropic: workspace "gone": status 404: no such resource`; err == nil || err.Error() != want {
		t.Errorf("an unknown workspace: %v, want %s", err, want)
	}
}

// Pages without end cost no more than a hundred.
func TestLimitsEndlessPages(t *testing.T) {
	pages := 0
	for name, source := range sources(func(r *http.Request) (*http.Response, error) {
		pages++
		return response(r, 200, fmt.Sprintf(`{"data":[],"has_more":true,"last_id":"%d","next_page":"%d"}`, pages, pages)), nil
	}) {
		pages = 0
		if _, err := source.Limits(t.Context()); err == nil || pages != 100 {
			t.Errorf("%s: %d pages, %v, want an error behind 100", name, pages, err)
		}
	}
}

func TestLimitsEndWithTheContext(t *testing.T) {
	for name, source := range sources(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, errors.New("gone")
	}) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := source.Limits(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v, want context.DeadlineExceeded", name, err)
			}
		})
	}
}
