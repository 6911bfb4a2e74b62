package debugpage_test

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/debugpage"
)

var (
	tag   = regexp.MustCompile(`<[^>]*>`)
	space = regexp.MustCompile(`\s+`)
)

// rowOf returns the text of a model's row, without its markup; "" if there is none.
func rowOf(page, model string) string {
	for row := range strings.SplitSeq(page, "<tr ") {
		if row, _, _ = strings.Cut(row, "</tr>"); strings.Contains(row, `<span class="name">`+html.EscapeString(model)+"</span>") {
			_, row, _ = strings.Cut(row, ">")
			return strings.TrimSpace(space.ReplaceAllString(html.UnescapeString(tag.ReplaceAllString(strings.ReplaceAll(row, "&nbsp;", " "), " ")), " "))
		}
	}
	return ""
}

// acquirer waits in line until the test ends.
func acquirer(t *testing.T, rl *ratelimit.RateLimiter, model string, prompt, output int) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { rl.Acquire(ctx, model, prompt, output) })
	synctest.Wait()
	return func() { cancel(); wg.Wait() }
}

// TestWhatBlocks has one model in each state, and what its row says without JavaScript.
func TestWhatBlocks(t *testing.T) {
	const quota = "m quota set by the program "
	for _, test := range []struct {
		name  string
		quota ratelimit.ModelQuota
		do    func(t *testing.T, rl *ratelimit.RateLimiter) (end func())
		want  string
	}{
		{"in use", ratelimit.ModelQuota{MaxRPM: 10, MaxTPM: 12_000}, func(t *testing.T, rl *ratelimit.RateLimiter) func() {
			rl.RecordUsage("m", 1000, 200)
			r, _ := rl.Reserve("m", 1000, 100)
			time.Sleep(12 * time.Second)
			return r.Cancel
		}, quota + "free requests / min 2 / 10 tokens / min 2,300 / 12,000 1 open, the oldest for"},
		{"minute used up", ratelimit.ModelQuota{MaxRPM: 1}, func(t *testing.T, rl *ratelimit.RateLimiter) func() {
			rl.RecordUsage("m", 1, 1)
			time.Sleep(20 * time.Second)
			rl.Reserve("m", 1, 1)
			return nil
		}, quota + "requests used up requests per minute are used up next room in 40 s requests / min 1 / 1 in 40 s " +
			"0 open refused 0 s ago : requests per minute are used up"},
		{"day used up", ratelimit.ModelQuota{MaxRPD: 1}, func(t *testing.T, rl *ratelimit.RateLimiter) func() {
			rl.RecordUsage("m", 1, 1)
			return nil
		}, quota + "day used up requests per day are used up next room in 24 h 00 min requests / day 1 / 1 in 24 h 00 min 0 open"},
		{"cooldown", ratelimit.ModelQuota{MaxRPM: 5}, func(t *testing.T, rl *ratelimit.RateLimiter) func() {
			rl.CooldownFor("m", 90*time.Second, ratelimit.CauseRateLimited)
			return nil
		}, quota + "cooldown the provider said that its rate limit is exceeded next room in 1 min 30 s requests / min 0 / 5 0 open"},
		{"large request at the head", ratelimit.ModelQuota{MaxTPM: 1000}, func(t *testing.T, rl *ratelimit.RateLimiter) func() {
			rl.RecordUsage("m", 600, 0)
			one := acquirer(t, rl, "m", 700, 100)
			time.Sleep(3 * time.Second)
			two := acquirer(t, rl, "m", 1, 1)
			return func() { one(); two() }
		}, quota + "large request the first in line needs 800 of the tokens / min, and 400 are left next room " +
			"when the line has passed tokens / min 600 / 1,000 0 open 2 in line 3 s : 700 + 100 tokens 0 s : 1 + 1 token"},
		{"leaked slots", ratelimit.ModelQuota{MaxInFlight: 2}, func(t *testing.T, rl *ratelimit.RateLimiter) func() {
			one, _ := rl.Reserve("m", 1, 1)
			two, _ := rl.Reserve("m", 1, 1)
			time.Sleep(70 * time.Second)
			leave := acquirer(t, rl, "m", 1, 1)
			return func() { leave(); one.Cancel(); two.Cancel() }
		}, quota + "calls at limit calls in flight are at the limit next room when the line has passed open calls 2 / 2 " +
			"2 open; 2 over a minute: is each ended with Commit or Cancel? 1 in line 0 s : 1 + 1 token"},
		{"nothing left for the head", ratelimit.ModelQuota{MaxRPM: 1}, func(t *testing.T, rl *ratelimit.RateLimiter) func() {
			rl.RecordUsage("m", 1, 1)
			return acquirer(t, rl, "m", 1, 1)
		}, quota + "requests used up nothing is left of the requests / min next room"},
		{"large answer at the head", ratelimit.ModelQuota{MaxITPM: 10_000, MaxOTPM: 100}, func(t *testing.T, rl *ratelimit.RateLimiter) func() {
			rl.RecordUsage("m", 100, 90)
			return acquirer(t, rl, "m", 10, 20)
		}, quota + "large request the first in line needs 20 of the output / min, and 10 are left next room when the line has passed"},
		{"large request in the day", ratelimit.ModelQuota{MaxTPD: 1000}, func(t *testing.T, rl *ratelimit.RateLimiter) func() {
			rl.RecordUsage("m", 900, 0)
			return acquirer(t, rl, "m", 50, 100)
		}, quota + "large request the first in line needs 150 of the tokens / day, and 100 are left next room when the line has passed"},
		{"never", ratelimit.ModelQuota{MaxRPM: -1}, nil, quota + "invalid quota invalid quota: MaxRPM (max_rpm) is negative next room waiting does not help"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiter(t, map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1}})
				rl.SetQuota("m", test.quota)
				if test.do != nil {
					if end := test.do(t, rl); end != nil {
						defer end()
					}
				}
				row := rowOf(get(debugpage.Handler(rl), "/").Body.String(), "m")
				if !strings.HasPrefix(row, test.want) {
					t.Errorf("the row says %q, want %q", row, test.want)
				}
			})
		})
	}
}

// TestStates: models without a quota of their own, and others that wait for nothing.
func TestStates(t *testing.T) {
	rl := newLimiter(t, map[string]ratelimit.ModelQuota{"gpt-*": {MaxRPM: 5}, "open": {}})
	for _, model := range []string{"gpt-6", "open", "unknown"} {
		rl.RecordUsage(model, 3, 4)
	}
	page := get(debugpage.Handler(rl), "/").Body.String()
	for model, want := range map[string]string{
		"gpt-6":   "gpt-6 openai · quota of gpt-*, set by the program free requests / min 1 / 5 0 open",
		"open":    "open quota set by the program unlimited no limits: 1 request, 7 tokens in the last minute 0 open",
		"unknown": "unknown no quota no limits: 1 request, 7 tokens in the last minute 0 open",
	} {
		if row := rowOf(page, model); row != want && row != strings.Replace(want, " openai ·", "", 1) {
			t.Errorf("%s: %q, want %q", model, row, want)
		}
	}
}

// TestBars has a limit that is used by ended calls, by open calls and by others.
func TestBars(t *testing.T) {
	rl := newLimiter(t, map[string]ratelimit.ModelQuota{"m": {MaxTPM: 1000}})
	rl.RecordUsage("m", 250, 0)
	r, _ := rl.Reserve("m", 100, 25)
	defer r.Cancel()
	rl.Observe("m", ratelimit.ProviderLimits{
		TPM: ratelimit.ProviderLimit{Limit: 1000, Remaining: 425, HasRemaining: true},
	})
	page := get(debugpage.Handler(rl), "/").Body.String()
	for _, want := range []string{
		`<rect class="used" x="0.0%" width="25.0%" height="100%"/><rect class="open" x="25.0%" width="12.5%" height="100%"/>` +
			`<rect class="external" x="37.5%" width="20.0%" height="100%"/>`,
		`title="425 left, maximum set by the program, 125 of the used by open calls, 200 used by others of the account"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s", want)
		}
	}
}

// TestOrder: blocked models first, then those in use, then idle ones apart.
func TestOrder(t *testing.T) {
	quotas := make(map[string]ratelimit.ModelQuota)
	for _, name := range []string{"a-idle", "b-used", "c-blocked", "d-idle", "e-used", "f-blocked"} {
		quotas[name] = ratelimit.ModelQuota{MaxRPM: 2}
	}
	rl := newLimiter(t, quotas)
	for name := range quotas {
		if strings.HasSuffix(name, "-used") {
			rl.RecordUsage(name, 1, 1)
		} else if strings.HasSuffix(name, "-blocked") {
			rl.CooldownFor(name, time.Hour, "")
		}
	}
	page := get(debugpage.Handler(rl), "/").Body.String()
	var names []string
	for _, found := range regexp.MustCompile(`<span class="name">([^<]*)<|(1 idle|2 idle models)`).FindAllStringSubmatch(page, -1) {
		names = append(names, found[1]+found[2])
	}
	want := []string{"c-blocked", "f-blocked", "b-used", "e-used", "2 idle models", "a-idle", "d-idle"}
	if !slices.Equal(names, want) {
		t.Errorf("order %q, want %q", names, want)
	}
	if !strings.Contains(page, "<b>2</b> of 6 models blocked:") || !strings.Contains(page, ">f-blocked</a>") {
		t.Error("the text above does not name what is blocked")
	}
}

// TestWarnings: those of Health stand above the models, the first of many.
func TestWarnings(t *testing.T) {
	quotas := make(map[string]ratelimit.ModelQuota)
	for i := range 8 {
		quotas[fmt.Sprintf("<m%d>", i)] = ratelimit.ModelQuota{MaxRPM: 1}
	}
	rl := newLimiter(t, quotas)
	for name := range quotas {
		for range 200 {
			rl.Reserve(name, 1, 1)
		}
	}
	warnings := rl.Health().Warnings
	if len(warnings) != 8 {
		t.Fatalf("%d warnings", len(warnings))
	}
	h := debugpage.Handler(rl)
	page := get(h, "/").Body.String()
	for i, warning := range warnings {
		if shown := strings.Contains(page, `<p class="warning">`+html.EscapeString(warning.Error())+`</p>`); shown != (i < 6) {
			t.Errorf("warning %d is shown: %v", i, shown)
		}
	}
	if !strings.Contains(page, `<p class="warning">2 warnings more: see the JSON</p>`) {
		t.Error("the page does not say that there are more warnings")
	}
	var object struct{ Warnings []string }
	if err := json.Unmarshal(get(h, "/?format=json").Body.Bytes(), &object); err != nil || len(object.Warnings) != 8 || object.Warnings[7] != warnings[7].Error() {
		t.Errorf("the JSON has %q, %v", object.Warnings, err)
	}
}

// TestHostileNames has names that try to be more than text.
func TestHostileNames(t *testing.T) {
	long := strings.Repeat("x", 4096)
	for name, want := range map[string]string{
		`<script>alert(1)</script>`:    `&lt;script&gt;alert(1)&lt;/script&gt;`,
		`"><img src=x onerror=y>`:      `&#34;&gt;&lt;img src=x onerror=y&gt;`,
		`' onmouseover='x`:             `&#39; onmouseover=&#39;x`,
		`</span></tr></table><h1>`:     `&lt;/span&gt;&lt;/tr&gt;&lt;/table&gt;&lt;h1&gt;`,
		`{{.Nonce}}`:                   `{{.Nonce}}`,
		"模型/日本語-é":                     "模型/日本語-é",
		"turned\u202Eround":            `&#34;turned\u202eround&#34;`,
		"lines\ndata: {}\n\nid: 7\r\n": `&#34;lines\ndata: {}\n\nid: 7\r\n&#34;`,
		"bytes\xff\xfe\x00":            `&#34;bytes\xff\xfe\x00&#34;`,
		" ":                            `&#34; &#34;`,
		long:                           long[:72] + "…" + long[:24],
	} {
		t.Run(fmt.Sprintf("%.20q", name), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiter(t, map[string]ratelimit.ModelQuota{"*": {MaxRPM: 9}})
				rl.RecordUsage(name, 1, 1)
				rl.CooldownFor(name, time.Hour, ratelimit.Cause(name))
				h := debugpage.Handler(rl)
				page := get(h, "/").Body.String()
				if !strings.Contains(page, `<span class="name">`+want+`</span>`) || strings.Count(page, "<script") != 1 || strings.Contains(page, "<h1><") {
					t.Errorf("the page has no %q, or more of it", want)
				}
				v := watch(t, h, "/?stream")
				n := v.event()
				if len(n.Rows) != 1 || !strings.Contains(n.Rows[0].html, `<span class="name">`+want+`</span>`) || strings.Contains(n.Rows[0].html, "<script") {
					t.Errorf("the event has %+v", n.Rows)
				}
				v.leave()
			})
		})
	}
}
