package pagetest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
)

// patience is how long the browser may take for one step. It ends tests that hang, and decides
// nothing else.
const patience = 2 * time.Minute

// browser is a tab of a browser that ends with the test.
type browser struct {
	t   *testing.T
	ctx context.Context
}

// browse starts a browser with an empty profile. It skips the test where there is none.
func browse(t *testing.T) *browser {
	t.Helper()
	path := chromium()
	if path == "" {
		t.Skip("there is no Chromium here: apt-get install --no-install-recommends chromium")
	}
	// All that the browser writes is in here. Its sockets have short names only, and that of
	// t.TempDir is long.
	folder, err := os.MkdirTemp("", "page")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.UserDataDir(filepath.Join(folder, "profile")), chromedp.Env("HOME="+folder, "TMPDIR="+folder),
	}
	for _, flag := range []string{
		"headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
		"disable-component-update", "disable-sync", "disable-breakpad", "disable-dev-shm-usage", "hide-scrollbars",
	} {
		options = append(options, chromedp.Flag(flag, true))
	}
	// The context of the test ends before its clean-up, in which the browser is closed in peace.
	ctx, end := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(end)
	ctx, closeTab := chromedp.NewContext(ctx)
	t.Cleanup(closeTab)
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(ctx, patience)
		defer stop()
		if err := chromedp.Cancel(ctx); err != nil {
			t.Logf("close the browser: %v", err)
		}
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	return &browser{t, ctx}
}

// chromium returns the path of the browser; empty for none.
func chromium() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// do runs actions.
func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.ctx, patience)
	defer stop()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// result runs an action that has a result.
func result[R any](b *browser, action chromedp.Action[R]) R {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.ctx, patience)
	defer stop()
	r, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// value returns what an expression is on the page.
func value[V any](b *browser, expression string) V {
	b.t.Helper()
	return result(b, chromedp.Evaluate[V](expression))
}

// until waits until an expression is true on the page.
func (b *browser) until(expression string) {
	b.t.Helper()
	result(b, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(patience)))
}

// call is a command of the protocol as an action.
func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

// visit opens an address and waits until the page is live.
func (b *browser) visit(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
	b.until(`document.querySelector("#live.on") !== null`)
}
