package pagetest

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// overlaps lists texts that stand over each other, or touch a bar, in pairs.
const overlaps = `(() => {
	const boxes = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let n; (n = walk.nextNode());) {
		if (!n.data.trim() || ["SCRIPT", "STYLE", "NOSCRIPT"].includes(n.parentElement.tagName)) continue;
		const range = document.createRange();
		range.selectNodeContents(n);
		for (const r of range.getClientRects()) if (r.width > 0) boxes.push([n, r]);
	}
	for (const bar of document.querySelectorAll(".bar")) {
		const r = bar.getBoundingClientRect();
		if (r.width > 0) boxes.push([{data: "a bar"}, new DOMRect(r.x - 4, r.y, r.width + 8, r.height)]);
	}
	const found = [];
	boxes.forEach(([n, a], i) => boxes.slice(i + 1).forEach(([m, b]) => {
		if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4)
			found.push(n.data + " | " + m.data);
	}));
	return found;
})()`

// contrasts lists what has too little contrast: segments of bars with the track, with the page, and
// with each other, where no gap in the colour of the page is between them.
const contrasts = `(() => {
	const light = (text) => {
		const [r, g, b] = text.match(/[\d.]+/g).map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
	const back = getComputedStyle(document.body).backgroundColor, low = [];
	for (const bar of document.querySelectorAll(".bar")) {
		const track = getComputedStyle(bar).backgroundColor;
		let before = null;
		for (const s of bar.querySelectorAll("rect")) {
			const is = getComputedStyle(s), gap = is.stroke === back && parseFloat(is.strokeWidth) >= 4 && s.classList.contains("external");
			const beside = [track, back];
			if (before && !(gap && before.classList.contains("used"))) beside.push(getComputedStyle(before).fill);
			for (const c of beside) {
				const got = is.fillOpacity === "1" ? ratio(is.fill, c) : 1;
				if (got < 3) low.push(bar.parentElement.className + ": " + s.getAttribute("class") + " " + is.fill + " on " + c + ": " + got.toFixed(2));
			}
			before = s;
		}
	}
	return low;
})()`

// crowded returns a page with all kinds of bars, and large numbers.
func crowded(t *testing.T) *service {
	s := serve(t, map[string]ratelimit.ModelQuota{
		"claude-opus-5": {MaxRPM: 1000, MaxTPM: 100_000_000, MaxRPD: 50_000, MaxITPM: 90_000_000, MaxOTPM: 1_000_000, MaxInFlight: 12},
		"full":          {MaxRPM: 8, MaxTPM: 1_000_000_000}, "high": {MaxRPM: 10, MaxRPD: 100}, "settled": {MaxRPM: 20, MaxRPD: 20},
		"searched": {AdaptiveCeilingRPM: 1_000_000, AdaptiveFloorInFlight: 5_000}, "idle": {MaxRPM: 1, MaxTPM: 1_000_000_000},
	})
	s.rl.SetPrice("*", money.Price{Input: money.USD(1)})
	s.rl.SetPool("org", ratelimit.Pool{Models: []string{"*"}, Quota: ratelimit.ModelQuota{
		MaxRPM: 1000, MaxTPM: 1_000_000_000, MaxSpendPerDay: money.USD(123_456_789), MaxSpendPerMonth: money.USD(50),
	}})
	s.rl.RecordUsage("claude-opus-5", 40_000_000, 900_000)
	s.rl.RecordUsage("searched", 1, 1)
	for model, calls := range map[string]int{"full": 5, "high": 6, "settled": 5} {
		for range calls {
			s.rl.RecordUsage(model, 1, 1)
		}
	}
	for model, calls := range map[string]int{"claude-opus-5": 1, "full": 2, "high": 2} {
		for range calls {
			if r, _ := s.rl.Reserve(model, 100_000, 1_000); r != nil {
				t.Cleanup(func() { r.Cancel() })
			}
		}
	}
	for model, left := range map[string]int{"claude-opus-5": 500, "full": 0, "high": 1, "settled": 8} {
		limit := s.rl.Stats(model).MaxRPM
		s.rl.Observe(model, ratelimit.ProviderLimits{
			RPM: ratelimit.ProviderLimit{Limit: limit, Remaining: left, HasRemaining: true},
			TPM: ratelimit.ProviderLimit{Limit: 100_000_000, Remaining: 20_000_000, HasRemaining: true},
			RPD: ratelimit.ProviderLimit{Limit: 100_000_000, Remaining: 10, HasRemaining: true},
		})
		for range 3 {
			if r, _ := s.rl.Reserve(model, 99_000_000, 1_000_000); r != nil {
				t.Error("it fits")
			}
		}
	}
	return s
}

// TestWidths: at no width text stands over text, or the page scrolls sideways; segments of bars can
// be told apart in both schemes; and an empty limiter has words.
func TestWidths(t *testing.T) {
	pages := map[string]*service{"crowded": crowded(t), "empty": serve(t, map[string]ratelimit.ModelQuota{"*": {MaxRPM: 1}})}
	b := browse(t) // which ends before the pages do
	for name, s := range pages {
		for _, scheme := range []string{"light", "dark"} {
			b.do(colours(scheme))
			b.visit(s.URL)
			b.do(chromedp.Evaluate[chromedp.Void](`for (const d of document.querySelectorAll("details")) d.open = true`))
			for _, width := range []int64{320, 360, 415, 417, 500, 768, 960, 980, 1000, 1010, 1020, 1040, 1100, 1199, 1201, 1280, 1400} {
				b.do(chromedp.EmulateViewport(width, 800))
				at := fmt.Sprintf("%s, %s at %d px", name, scheme, width)
				if over := value[[]string](b, overlaps); len(over) > 0 {
					t.Errorf("%s: %d stand over each other: %.3q", at, len(over), over)
				}
				if wide := value[int64](b, "document.documentElement.scrollWidth"); wide > width {
					t.Errorf("%s: the page is %d px wide", at, wide)
				}
			}
			if low := value[[]string](b, contrasts); len(low) > 0 {
				t.Errorf("%s, %s: too little contrast: %q", name, scheme, low)
			}
			kinds := value[int](b, `new Set([...document.querySelectorAll(".bar rect")].map((s) => s.closest(".limit").className + s.getAttribute("class"))).size`)
			if want := map[string]int{"crowded": 9}[name]; kinds != want {
				t.Errorf("%s: %d kinds of segments, want %d", name, kinds, want)
			}
			words := value[bool](b, `[...document.querySelectorAll("main > .empty")].some((x) => x.getClientRects().length > 0)`)
			if words != (name == "empty") {
				t.Errorf("%s, %s: words for an empty limiter are shown: %t", name, scheme, words)
			}
		}
	}
}
