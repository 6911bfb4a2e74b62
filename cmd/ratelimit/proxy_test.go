package main_test

import (
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"dappco.re/go/core/go-ratelimit"
)

// One upstream gets all paths, behind the path of its own; several get those that begin with their
// names, and count their models apart.
func TestUpstreams(t *testing.T) {
	one, other := provider(t, nil), provider(t, nil)
	db := filepath.Join(t.TempDir(), "q.db")
	p := start(t, "--db", db, "--upstream", "openai="+one.URL+"/base/", "--upstream", "b="+other.URL, "--rpm", "100")
	for _, test := range []struct {
		path, uri string
		to        *upstream
	}{
		{"/openai/v1/chat/completions", "/base/v1/chat/completions", one},
		{"/b/v1/chat/completions?x=%2F&y=a+b;c", "/v1/chat/completions?x=%2F&y=a+b;c", other},
		{"/b/v1/%41%2f//x/", "/v1/%41%2f//x/", other},
		{"/openai", "/base", one},
		{"/openai/", "/base/", one},
	} {
		resp := post(t, p.url+test.path, chat("gpt-4o"), "X-Forwarded-Host", "elsewhere.test")
		if body := read(t, resp); resp.StatusCode != 200 || body != answers {
			t.Fatalf("%s: %d, %s", test.path, resp.StatusCode, body)
		}
		if got := test.to.last(t); got.URI != test.uri || got.Host != strings.TrimPrefix(test.to.URL, "http://") || got.Body != chat("gpt-4o") {
			t.Errorf("%s: the upstream got %+v", test.path, got)
		}
	}
	for _, path := range []string{"/", "/v1/chat/completions", "/openaiv1", "/OpenAI/v1"} {
		resp := post(t, p.url+path, chat("gpt-4o"))
		if body := read(t, resp); resp.StatusCode != 404 || !strings.Contains(body, "/openai/") {
			t.Errorf("%s: %d, %s", path, resp.StatusCode, body)
		}
	}
	rl := library(t, db)
	if a, b := rl.Stats("openai/gpt-4o").RPM, rl.Stats("b/gpt-4o").RPM; a != 1 || b != 1 {
		t.Errorf("counted %d and %d calls", a, b)
	}
}

// library is a limiter of the library on the file of a proxy.
func library(t *testing.T, db string) *ratelimit.RateLimiter {
	t.Helper()
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{Backend: "sqlite", FilePath: db, Shared: true, Quotas: map[string]ratelimit.ModelQuota{"unrelated": {}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rl.Close() })
	return rl
}

// What no upstream can be is refused before anything starts.
func TestUpstreamsRefused(t *testing.T) {
	for _, test := range []struct{ flag, want string }{
		{"http://api.example.com", "neither https nor on this machine"},
		{"ftp://127.0.0.1", "neither https"},
		{"https://user:secret@example.com", "a user"},
		{"https://example.com?key=secret", "a query"},
		{"example.com", "want an address"},
		{"a b=https://example.com", "a name has letters"},
	} {
		status, _, stderr := run(t, "proxy", "--upstream", test.flag, "--listen", "127.0.0.1:0", "--admin", "")
		if status != 2 || !strings.Contains(stderr, test.want) || strings.Contains(stderr, "secret") {
			t.Errorf("%s: status %d, %s", test.flag, status, stderr)
		}
	}
	for _, flags := range [][]string{
		{}, {"--upstream", "https://a.test", "--upstream", "b=https://b.test"}, {"--rpm", "-1", "--upstream", "https://a.test"},
		{"--upstream", "https://a.test", "--class-by", "body"}, {"--upstream", "https://a.test", "--unknown"}, {"--upstream", "https://a.test", "more"},
		{"--upstream", "https://a.test", "--profile", "nobody/1"}, {"--upstream", "https://a.test", "--max-cost-per-day", "much"},
		{"--upstream", "https://a.test", "--key-env", "RATELIMIT_TEST_UNSET"}, {"--upstream", "https://a.test", "--db", "x", "--redis", "127.0.0.1:1"},
		{"--upstream", "https://a.test", "--redis", "redis://user:secret@127.0.0.1:1"},
		{"--upstream", "a=https://a.test", "--upstream", "a=https://b.test"}, {"--upstream", "https://a.test", "--class-by", "token"},
	} {
		if status, _, stderr := run(t, append([]string{"proxy", "--listen", "127.0.0.1:0", "--admin", ""}, flags...)...); status != 2 {
			t.Errorf("%q: status %d, %s", flags, status, stderr)
		}
	}
}

// A redirect is handed back, and not followed.
func TestRedirect(t *testing.T) {
	elsewhere := provider(t, nil)
	u := provider(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+"/v1/chat/completions", http.StatusTemporaryRedirect)
	})
	p := start(t, "--upstream", u.URL, "--rpm", "10")
	req := request(t, "POST", p.url+"/v1/chat/completions", chat("m"), "Authorization", "Bearer k")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 307 || resp.Header.Get("Location") != elsewhere.URL+"/v1/chat/completions" || len(elsewhere.requests()) != 0 {
		t.Errorf("%d to %q, %d requests elsewhere", resp.StatusCode, resp.Header.Get("Location"), len(elsewhere.requests()))
	}
}

// Each key is an account with --per-key, under a name that stays and tells nothing of the key.
func TestPerKey(t *testing.T) {
	u := provider(t, nil)
	db := filepath.Join(t.TempDir(), "q.db")
	flags := []string{"--db", db, "--upstream", u.URL, "--rpm", "1", "--max-wait", "1ms", "--per-key"}
	statuses := func(p *proxied, key string) (got []int) {
		for _, header := range [][2]string{{"Authorization", "Bearer " + key}, {"X-Api-Key", key}} {
			resp := post(t, p.url+"/v1/chat/completions", chat("gpt-4o"), header[0], header[1])
			read(t, resp)
			got = append(got, resp.StatusCode)
		}
		return got
	}
	p := start(t, flags...)
	for _, key := range []string{"sk-one-secret", "sk-two-secret", ""} {
		if got := statuses(p, key); !slices.Equal(got, []int{200, 429}) {
			t.Errorf("key %q: %v", key, got)
		}
	}
	if status := p.stop(syscall.SIGTERM); status != 0 {
		t.Errorf("status %d", status)
	}
	again := start(t, flags...)
	if got := statuses(again, "sk-one-secret"); !slices.Equal(got, []int{429, 429}) {
		t.Errorf("after a restart: %v", got)
	}
	_, metrics := get(t, again.admin+"/metrics")
	if strings.Contains(again.log.String()+metrics+p.log.String(), "secret") {
		t.Error("a key is told")
	}
	if strings.Count(metrics, `ratelimit_quota_used{dimension="rpm",model="key-`) != 3 {
		t.Errorf("no three accounts in:\n%s", regexp.MustCompile(`(?m)^ratelimit_quota_used.*$`).FindAllString(metrics, -1))
	}
}

// Names of models with dates and prefixes count with the quota of their upstream, and of no other.
func TestNames(t *testing.T) {
	u := provider(t, nil)
	for _, test := range []struct {
		name, path, model, counted string
		flags                      []string
	}{
		{"one upstream", "", "gpt-5.5-2026-04-23", "gpt-5.5", nil},
		{"several", "/openai", "gpt-5.5-2026-04-23", "openai/gpt-5.5", []string{"--upstream", "hub=" + u.URL}},
		{"a host", "/hub", "openai/gpt-5.5", "hub/openai/gpt-5.5", []string{"--upstream", "hub=" + u.URL}},
		{"keys", "", "gpt-5.5-2026-04-23", "key-*/gpt-5.5", []string{"--per-key"}},
		{"keys of several", "/openai", "gpt-5.5-2026-04-23", "openai/key-*/gpt-5.5", []string{"--per-key", "--upstream", "hub=" + u.URL}},
	} {
		t.Run(test.name, func(t *testing.T) {
			name := ""
			if test.path != "" {
				name = "openai="
			}
			p := start(t, append([]string{"--upstream", name + u.URL, "--profile", "openai/tier1"}, test.flags...)...)
			for range 2 {
				resp := post(t, p.url+test.path+"/v1/chat/completions", chat(test.model), "Authorization", "Bearer k")
				if body := read(t, resp); resp.StatusCode != 200 {
					t.Fatalf("%d, %s", resp.StatusCode, body)
				}
			}
			p.tells(`ratelimit_requests_total\{.*model="` + strings.ReplaceAll(test.counted, "*", "[a-z0-9]+") + `".*result="admitted"\} 2`)
		})
	}
}

// With --key-env the proxy has the key, and clients send nothing of their own on.
func TestKeyEnv(t *testing.T) {
	u := provider(t, nil)
	tokens := tokenFile(t, "alice  alice-token-0123456789\nbob,bob-token-0123456789,batch,team\n")
	p := startWith(t, []string{"TEST_KEY=sk-real"}, "--upstream", u.URL, "--rpm", "10", "--key-env", "TEST_KEY", "--token-file", tokens)
	for _, test := range []struct{ header, value, sent string }{
		{"Authorization", "Bearer alice-token-0123456789", "Bearer sk-real"},
		{"X-Api-Key", "alice-token-0123456789", "sk-real"},
		{"Api-Key", "bob-token-0123456789", "sk-real"},
		{"X-Goog-Api-Key", "bob-token-0123456789", "sk-real"},
		{"X-Ratelimit-Token", "alice-token-0123456789", ""},
	} {
		resp := post(t, p.url+"/v1/chat/completions?a=b", chat("m"), test.header, test.value)
		read(t, resp)
		got := u.last(t)
		if resp.StatusCode != 200 || got.Header.Get(test.header) != test.sent || strings.Contains(strings.Join(flat(got.Header), " "), "token-0") {
			t.Errorf("%s: %d, %v", test.header, resp.StatusCode, got.Header)
		}
	}
	if got := u.last(t).Header.Get("Authorization"); got != "Bearer sk-real" {
		t.Errorf("a token alone: %q", got)
	}
	resp := post(t, p.url+"/v1beta/models/gemini-2.5-flash:generateContent?alt=sse&key=alice-token-0123456789", `{"contents":[]}`)
	read(t, resp)
	if got := u.last(t); got.URI != "/v1beta/models/gemini-2.5-flash:generateContent?alt=sse&key=sk-real" || len(got.Header["Authorization"]) > 0 {
		t.Errorf("in the query: %+v", got)
	}
	if said := p.log.String(); strings.Contains(said, "token-0") || strings.Contains(said, "sk-real") {
		t.Error("a token or a key is told")
	}
}

// flat lists the values of headers.
func flat(h http.Header) (values []string) {
	for _, v := range h {
		values = append(values, v...)
	}
	return values
}

// Two proxies and a program on one file are one limiter, and who says another quota is told of.
func TestOneQuotaForAll(t *testing.T) {
	u := provider(t, nil)
	db := filepath.Join(t.TempDir(), "q.db")
	flags := []string{"--db", db, "--upstream", u.URL, "--max-wait", "1ms", "--rpm"}
	first := start(t, append(flags, "3")...)
	second := start(t, append(flags, "3")...)
	rl := library(t, db)
	for i, url := range []string{first.url, second.url} {
		resp := post(t, url+"/v1/chat/completions", chat("m"))
		if read(t, resp); resp.StatusCode != 200 {
			t.Fatalf("call %d: %d", i, resp.StatusCode)
		}
	}
	if _, d := rl.Reserve("m", 1, 1); !d.Allowed {
		t.Fatal(d.Reason)
	}
	for _, url := range []string{first.url, second.url} {
		resp := post(t, url+"/v1/chat/completions", chat("m"))
		if read(t, resp); resp.StatusCode != 429 {
			t.Errorf("beyond the quota: %d", resp.StatusCode)
		}
	}
	start(t, append(flags, "4")...)
	first.log.waitFor(t, "another process has said another quota.*of=\\*")
	resp := post(t, first.url+"/v1/chat/completions", chat("m"))
	if read(t, resp); resp.StatusCode != 200 {
		t.Errorf("with the quota said last: %d", resp.StatusCode)
	}
}

// The quotas of a file, and its upstreams.
func TestConfigFile(t *testing.T) {
	u := provider(t, nil)
	config := file(t, "config.yaml", `
upstreams:
  openai:
    url: `+u.URL+`
    key_env: TEST_KEY
  local:
    url: `+u.URL+`/local
quotas:
  openai/gpt-4o: {max_rpm: 1}
  "local/*": {max_rpm: 2}
pools:
  all: {models: ["*"], quota: {max_rpm: 4}}
`)
	p := startWith(t, []string{"TEST_KEY=sk-real"}, "--config", config, "--max-wait", "1ms")
	for i, test := range []struct {
		path, model string
		status      int
	}{
		{"/openai", "gpt-4o", 200}, {"/openai", "gpt-4o", 429}, {"/local", "a", 200}, {"/local", "a", 200}, {"/local", "a", 429},
		{"/local", "b", 200}, {"/local", "b", 429},
	} {
		resp := post(t, p.url+test.path+"/v1/chat/completions", chat(test.model))
		if body := read(t, resp); resp.StatusCode != test.status {
			t.Errorf("call %d: %d, %s", i, resp.StatusCode, body)
		}
	}
	one := startWith(t, []string{"TEST_KEY=sk-real"}, "--max-wait", "1ms", "--config", file(t, "one.yaml",
		"upstreams: {openai: "+u.URL+"}\nquotas: {openai/gpt-4o: {max_rpm: 1}}\n"))
	for i, status := range []int{200, 429} {
		resp := post(t, one.url+"/openai/v1/chat/completions", chat("gpt-4o"))
		if read(t, resp); resp.StatusCode != status {
			t.Errorf("call %d of an only upstream: %d", i, resp.StatusCode)
		}
	}
	other := start(t, "--config", file(t, "alias.yaml",
		"upstreams: {openai: "+u.URL+", local: "+u.URL+"}\nquotas: {gpt: {max_rpm: 1}}\naliases: {openai/gpt-4o: gpt}\n"), "--max-wait", "1ms")
	for i, status := range []int{200, 429} {
		resp := post(t, other.url+"/openai/v1/chat/completions", chat("gpt-4o"))
		if read(t, resp); resp.StatusCode != status {
			t.Errorf("call %d of an alias: %d", i, resp.StatusCode)
		}
	}
	bad := file(t, "bad.yaml", "upstreams: {a: {url: https://a.test}}\nquotas: {m: {max_rmp: 1}}\n")
	if status, _, stderr := run(t, "proxy", "--config", bad, "--listen", "127.0.0.1:0"); status != 2 || !strings.Contains(stderr, "line 2: quotas.m.max_rmp") {
		t.Errorf("status %d, %s", status, stderr)
	}
}

// A budget is of all models together, at the prices that providers publish.
func TestBudget(t *testing.T) {
	u := provider(t, nil)
	p := start(t, "--upstream", "openai="+u.URL, "--upstream", "b="+u.URL, "--max-cost-per-day", "0.0003", "--max-wait", "1ms")
	const one = 0.0000425 // 5 tokens for $2.50 a million, and 3 for $10
	for sum := one; ; sum += one {
		resp := post(t, p.url+"/openai/v1/chat/completions", chat("gpt-4o"))
		body := read(t, resp)
		if resp.StatusCode == 429 && strings.Contains(body, "spend_exceeded") && sum > one {
			break
		}
		if resp.StatusCode != 200 || sum > 0.0003 {
			t.Fatalf("after $%f: %d, %s", sum, resp.StatusCode, body)
		}
	}
}

// --strict refuses what no quota limits and what nothing counts; else it is told once.
func TestStrict(t *testing.T) {
	u := provider(t, nil)
	p := start(t, "--upstream", u.URL, "--rpm", "10", "--strict")
	resp := post(t, p.url+"/v1/unheard/of", chat("m"))
	if body := read(t, resp); resp.StatusCode != 403 || !strings.Contains(body, "nothing can count") || len(u.requests()) != 0 {
		t.Errorf("%d, %s", resp.StatusCode, body)
	}
	none := start(t, "--upstream", u.URL, "--strict")
	resp = post(t, none.url+"/v1/chat/completions", chat("m"))
	if body := read(t, resp); resp.StatusCode != 403 || !strings.Contains(body, `no quota limits the model \"m\"`) {
		t.Errorf("%d, %s", resp.StatusCode, body)
	}
	lax := start(t, "--upstream", u.URL, "--rpm", "10")
	for range 3 {
		resp := post(t, lax.url+"/v1/unheard/of?key=secret", chat("m"))
		if read(t, resp); resp.StatusCode != 200 {
			t.Errorf("%d", resp.StatusCode)
		}
	}
	lax.log.waitFor(t, "is not counted")
	if n := strings.Count(lax.log.String(), "is not counted"); n != 1 || strings.Contains(lax.log.String(), "secret") {
		t.Errorf("told %d times in:\n%s", n, lax.log)
	}
}

// The page, health and metrics are on a port of their own.
func TestAdmin(t *testing.T) {
	u := provider(t, nil)
	p := start(t, "--upstream", u.URL, "--rpm", "10")
	read(t, post(t, p.url+"/v1/chat/completions", chat("m")))
	for _, test := range []struct{ path, want string }{
		{"/", "<title>Rate limits</title>"}, {"/healthz", `"status":"ok"`},
		{"/metrics", `ratelimit_quota_used{dimension="rpm",model="m",provider="",source="program"} 1`},
	} {
		if status, body := get(t, p.admin+test.path); status != 200 || !strings.Contains(body, test.want) {
			t.Errorf("%s: %d, %s", test.path, status, body)
		}
	}
	resp, err := http.DefaultClient.Do(request(t, "GET", p.admin+"/metrics", "", "Host", "evil.test"))
	if err != nil {
		t.Fatal(err)
	}
	if io.Copy(io.Discard, resp.Body); resp.StatusCode != 421 { //nolint:errcheck // only the status counts
		t.Errorf("a name from elsewhere: %d", resp.StatusCode)
	}
	resp.Body.Close()
}

// A proxy without a quota of its own joins that of others, and takes nothing of it away.
func TestJoins(t *testing.T) {
	u := provider(t, nil)
	db := filepath.Join(t.TempDir(), "q.db")
	start(t, "--db", db, "--upstream", u.URL, "--rpm", "1")
	p := start(t, "--db", db, "--upstream", u.URL, "--max-wait", "1ms")
	for i, status := range []int{200, 429} {
		resp := post(t, p.url+"/v1/chat/completions", chat("m"))
		if read(t, resp); resp.StatusCode != status {
			t.Errorf("call %d: %d", i, resp.StatusCode)
		}
	}
}
