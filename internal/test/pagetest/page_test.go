package pagetest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/debugpage"
	"dappco.re/go/core/go-ratelimit/money"
)

// service is the page of a limiter, and what was asked of its server.
type service struct {
	*httptest.Server
	rl *ratelimit.RateLimiter

	mu    sync.Mutex
	asked []string // paths with queries
}

// serve starts the page of a limiter with these quotas. Call it before browse, whose clean-up ends
// the streams.
func serve(t *testing.T, quotas map[string]ratelimit.ModelQuota) *service {
	t.Helper()
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{FilePath: t.TempDir() + "/state.yaml", Quotas: quotas})
	if err != nil {
		t.Fatal(err)
	}
	s := &service{rl: rl}
	page := debugpage.Handler(rl)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r.URL.RequestURI())
		s.mu.Unlock()
		page.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// pages returns how often the page itself was asked for.
func (s *service) pages() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, uri := range s.asked {
		if u, err := url.Parse(uri); err == nil && !u.Query().Has("stream") {
			n++
		}
	}
	return n
}

// shown is what the page shows of a model.
type shown struct {
	State  string
	Limits map[string]string // "used of max", by key
	Calls  string
}

// row is a function that finds a model's row on the page.
const row = `(name) => {
	const tr = [...document.querySelectorAll("tbody tr")].find((r) => r.querySelector(".name").textContent === name);
	if (!tr) return null;
	const limits = {};
	for (const l of tr.querySelectorAll("[data-limit]"))
		limits[l.dataset.limit] = l.classList.contains("brief") ? l.textContent : l.querySelector(".amount").textContent + " " + l.querySelector(".of").textContent.replace("\u00a0", " ");
	return { State: tr.querySelector(".badge")?.textContent ?? "", Limits: limits, Calls: tr.querySelector(".calls").textContent };
}`

func (b *browser) row(model string) *shown {
	b.t.Helper()
	return value[*shown](b, fmt.Sprintf("(%s)(%s)", row, strconv.Quote(model)))
}

// digits returns the number in a text with groups of three.
func digits(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.ReplaceAll(text, ",", ""))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// checkNumbers compares what the page shows with Stats.
func checkNumbers(t *testing.T, b *browser, rl *ratelimit.RateLimiter, model string) {
	t.Helper()
	is, stats := b.row(model), rl.Stats(model)
	if is == nil {
		t.Fatalf("%s has no row", model)
	}
	for key, want := range map[string][2]int{
		"max_rpm": {stats.RPM, stats.MaxRPM}, "max_tpm": {stats.TPM, stats.MaxTPM}, "max_rpd": {stats.RPD, stats.MaxRPD},
		"max_itpm": {stats.ITPM, stats.MaxITPM}, "max_otpm": {stats.OTPM, stats.MaxOTPM}, "max_in_flight": {stats.InFlight, stats.MaxInFlight},
	} {
		used, maximum, found := strings.Cut(is.Limits[key], " / ")
		if found != (want[1] > 0) || found && (digits(t, used) != want[0] || digits(t, maximum) != want[1]) {
			t.Errorf("%s shows %q of %s, want %v", model, is.Limits[key], key, want)
		}
	}
	if want := fmt.Sprintf("%d open", stats.InFlight); !strings.HasPrefix(is.Calls, want) {
		t.Errorf("%s shows %q, want %s", model, is.Calls, want)
	}
}

// TestNumbers: the page shows what Stats says, and goes on doing so without being asked for again.
func TestNumbers(t *testing.T) {
	s := serve(t, map[string]ratelimit.ModelQuota{
		"gpt": {MaxRPM: 1000, MaxTPM: 1_000_000, MaxRPD: 50_000}, "claude": {MaxITPM: 40_000, MaxOTPM: 8_000, MaxInFlight: 4}, "idle": {MaxRPM: 7},
	})
	for i := range 37 {
		s.rl.RecordUsage("gpt", 1_000+i, 111)
	}
	b := browse(t)
	problems := b.problems()
	b.visit(s.URL + "/debug/ratelimit?token=x#top")
	checkNumbers(t, b, s.rl, "gpt")
	if is := b.row("idle"); is == nil || is.Limits["max_rpm"] != "requests / min 0 of 7" {
		t.Errorf("idle shows %+v", is)
	}

	r, d := s.rl.Reserve("claude", 12_000, 2_000)
	if !d.Allowed {
		t.Fatal(d.Reason)
	}
	b.until(`document.querySelector("#active").textContent.includes("claude")`)
	checkNumbers(t, b, s.rl, "claude")
	r.Commit(11_000, 500)
	s.rl.CooldownFor("gpt", time.Hour, ratelimit.CauseOverloaded)
	s.rl.SetQuota("new<b>", ratelimit.ModelQuota{MaxRPM: 3})
	b.until(`[...document.querySelectorAll(".badge")].some((x) => x.textContent === "cooldown")`)
	checkNumbers(t, b, s.rl, "claude")
	checkNumbers(t, b, s.rl, "gpt")
	if is := b.row("gpt"); is.State != "cooldown" {
		t.Errorf("gpt shows %+v", is)
	}
	if b.row("new<b>") == nil || !value[bool](b, `document.querySelector("#idles").textContent === "2 idle models"`) {
		t.Error("the new model is not among the idle ones")
	}
	s.rl.RemoveQuota("new<b>")
	b.until(`document.querySelector("#idles").textContent === "1 idle model"`)
	if b.row("new<b>") != nil {
		t.Error("the model that is gone is still there")
	}
	if n := s.pages(); n != 1 {
		t.Errorf("the page was asked for %d times", n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, uri := range s.asked {
		if !strings.HasPrefix(uri, "/debug/ratelimit?") || !strings.Contains(uri, "token=x") {
			t.Errorf("the page asked for %s", uri)
		}
	}
	problems()
}

// problems watches what the page asks for and what its console says. The function that it returns
// reports what is wrong.
func (b *browser) problems() (report func()) {
	b.do(call(network.Enable, network.EnableParams{}))
	var mu sync.Mutex
	var urls, said []string
	err := chromedp.Listen(b.ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		if sent, ok := event.(*network.EventRequestWillBeSent); ok {
			urls = append(urls, sent.Request.URL)
		}
	})
	if err != nil {
		b.t.Fatal(err)
	}
	messages := chromedp.Console(b.ctx)
	go func() {
		for message, err := range messages {
			if err != nil {
				return
			}
			mu.Lock()
			said = append(said, message.Text)
			mu.Unlock()
		}
	}()
	return func() {
		here := value[string](b, "location.origin")
		mu.Lock()
		defer mu.Unlock()
		for _, url := range urls {
			if !strings.HasPrefix(url, here+"/") && !strings.HasPrefix(url, "data:") {
				b.t.Errorf("the page asked for %s", url)
			}
		}
		if len(urls) < 2 {
			b.t.Errorf("the page asked for %q only", urls)
		}
		if len(said) > 0 {
			b.t.Errorf("the console says %q", said)
		}
	}
}

// TestWithoutJavaScript: the table is there, with the words for times.
func TestWithoutJavaScript(t *testing.T) {
	s := serve(t, map[string]ratelimit.ModelQuota{"gpt": {MaxRPM: 1000}, "idle": {MaxRPM: 7}})
	s.rl.RecordUsage("gpt", 10, 10)
	s.rl.CooldownFor("gpt", 3*time.Hour+30*time.Minute+30*time.Second, ratelimit.CauseDailyQuota)
	b := browse(t)
	b.do(call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}),
		chromedp.Navigate(s.URL), chromedp.WaitVisible(chromedp.CSS("#active tbody tr")))
	text := strings.ReplaceAll(result(b, chromedp.TextContent(chromedp.CSS("#active tbody tr"))), "\u00a0", " ")
	for _, want := range []string{"gpt", "cooldown", "in 3 h 30 min", "requests / min", "1", "/ 1,000"} {
		if !strings.Contains(text, want) {
			t.Errorf("the row says %q, and not %q", text, want)
		}
	}
	if live := result(b, chromedp.TextContent(chromedp.CSS("#live"))); live != "not live" {
		t.Errorf("without JavaScript the page is %q", live)
	}
}

// TestLooks: dark and light, and a phone, whose page is no wider than the screen.
func TestLooks(t *testing.T) {
	long := strings.Repeat("very-long-name/", 40)
	s := serve(t, map[string]ratelimit.ModelQuota{
		"gpt":  {MaxRPM: 1000, MaxTPM: 100_000_000, MaxRPD: 50_000, MaxITPM: 90_000_000, MaxOTPM: 1_000_000, MaxInFlight: 12},
		"pool": {AdaptiveCeilingRPM: 1_000_000, AdaptiveFloorInFlight: 5_000},
		long:   {MaxRPM: 1, MaxTPM: 1_000_000_000}, "idle-" + long: {MaxRPM: 1, MaxTPM: 1_000_000_000, MaxITPM: 3},
	})
	s.rl.SetPrice("*", money.Price{Input: money.USD(1)})
	s.rl.SetPool(long, ratelimit.Pool{Models: []string{"*", long, long + "2"}, Quota: ratelimit.ModelQuota{
		MaxRPM: 1000, MaxTPM: 1_000_000_000, MaxSpendPerDay: money.USD(123_456_789), AdaptiveCeilingRPM: 1_000_000,
	}})
	s.rl.SetPool("idle-"+long, ratelimit.Pool{Models: []string{"none"}, Quota: ratelimit.ModelQuota{MaxRPM: 1, MaxTPM: 1_000_000_000}})
	s.rl.RecordUsage("gpt", 40_000_000, 900_000)
	s.rl.RecordUsage(long, 999_000_000, 1)
	for _, problem := range []string{"rate_limited", "overloaded"} {
		s.rl.ObserveRefusal(t.Context(), ratelimit.ProviderRefusal{Model: "pool", Problem: problem})
	}
	s.rl.RecordUsage("pool", 1, 1)
	b := browse(t)
	backs := make(map[string]string)
	for _, width := range []int64{390, 768, 1280, 2560} {
		b.do(chromedp.EmulateViewport(width, 844))
		for _, scheme := range []string{"light", "dark"} {
			b.do(colours(scheme))
			b.visit(s.URL)
			b.do(chromedp.Evaluate[chromedp.Void](`for (const d of document.querySelectorAll("details")) d.open = true`))
			backs[scheme] = value[string](b, "getComputedStyle(document.body).backgroundColor")
			if wide := value[int64](b, "document.documentElement.scrollWidth"); wide > width {
				t.Errorf("%s at %d px: the page is %d px wide", scheme, width, wide)
			}
			// A cell that is too narrow lets its text run into the next one.
			if over := value[[]string](b, `[...document.querySelectorAll("td, th, .limit > *")]
				.filter((x) => x.scrollWidth > x.clientWidth + 1 && getComputedStyle(x).display !== "inline" && x.tagName !== "svg")
				.map((x) => x.className + ": " + x.textContent)`); len(over) > 0 {
				t.Errorf("%s at %d px: too wide are %q", scheme, width, over)
			}
		}
	}
	if backs["light"] == backs["dark"] || backs["light"] == "" {
		t.Errorf("the backgrounds are %q", backs)
	}
}

// TestThousandModels are all on the page, and one that is used comes up.
func TestThousandModels(t *testing.T) {
	quotas := make(map[string]ratelimit.ModelQuota)
	for i := range 1000 {
		quotas[fmt.Sprintf("model-%04d", i)] = ratelimit.ModelQuota{MaxRPM: 1000, MaxTPM: 1_000_000}
	}
	s := serve(t, quotas)
	for i := range 20 {
		s.rl.RecordUsage(fmt.Sprintf("model-%04d", i*10), 100, 10)
	}
	b := browse(t)
	b.visit(s.URL)
	if n := value[[]int](b, `["#active", "#idle"].map((x) => document.querySelectorAll(x + " tbody tr").length)`); n[0] != 20 || n[1] != 980 {
		t.Errorf("%d models in use and %d idle", n[0], n[1])
	}
	for i := range 20 {
		s.rl.RecordUsage(fmt.Sprintf("model-%04d", 999-i), 100, 10)
	}
	b.until(`document.querySelectorAll("#active tbody tr").length === 40 && document.querySelectorAll("#idle tbody tr").length === 960`)
	checkNumbers(t, b, s.rl, "model-0990")
	checkNumbers(t, b, s.rl, "model-0190")
	names := value[[]string](b, `[...document.querySelectorAll("#active .name")].map((x) => x.textContent)`)
	if names[0] != "model-0000" || names[39] != "model-0999" {
		t.Errorf("the order is %q", names)
	}
}

// TestComesBack: the page notices that its server is gone, and goes on with the next one.
func TestComesBack(t *testing.T) {
	s := serve(t, map[string]ratelimit.ModelQuota{"gpt": {MaxRPM: 1000}})
	b := browse(t)
	b.visit(s.URL)
	s.CloseClientConnections()
	b.until(`document.querySelector("#live.on") === null`)
	s.rl.RecordUsage("gpt", 1, 1)
	b.until(`document.querySelector("#live.on") !== null && document.querySelectorAll("#active tbody tr").length === 1`)
	checkNumbers(t, b, s.rl, "gpt")
}
