package pagetest

import (
	"bytes"
	"context"
	"flag"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"dappco.re/go/core/go-ratelimit/debugpage"
)

const (
	pictureFile  = "../../../docs/images/debugpage.png"
	pictureBytes = 300_000
)

var (
	update = flag.Bool("update", false, "write docs/images/debugpage.png")
	scheme = flag.String("scheme", "light", "colours of the picture: light or dark")
)

// TestPicture takes the picture of a busy service at one moment of a bubble, so that all times on
// it are the same each time. Without -update it looks only whether it can be taken.
func TestPicture(t *testing.T) {
	var shown recording
	synctest.Test(t, func(t *testing.T) {
		rl, end := busyService(t)
		defer end()
		shown = record(t, debugpage.Handler(rl))
	})
	server := httptest.NewServer(shown)
	t.Cleanup(server.Close) // behind that of the browser, which ends the streams
	b := browse(t)
	b.do(colours(*scheme), chromedp.EmulateViewport(1280, 900), atOneMoment())
	b.visit(server.URL)
	b.until(`document.body.dataset.version.endsWith(".1")`)
	picture := result(b, chromedp.FullScreenshot(100))
	seen, err := png.DecodeConfig(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	if seen.Width != 1280 || seen.Height < 400 || len(picture) > pictureBytes {
		t.Errorf("the picture is %d × %d and %d bytes, want 1280 × 400 or more and at most %d bytes",
			seen.Width, seen.Height, len(picture), pictureBytes)
	}
	if *update {
		if err := os.WriteFile(pictureFile, picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// colours chooses the colours that the system prefers.
func colours(scheme string) chromedp.Action[chromedp.Void] {
	return call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

// atOneMoment stops the clock of pages that are opened from now on: nothing is counted down.
func atOneMoment() chromedp.Action[chromedp.Void] {
	return call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: "Date.now = () => 0; window.setInterval = () => 0",
	})
}

// recording serves a page and its first event as they were once.
type recording struct {
	header http.Header
	page   []byte
	event  []byte
}

func record(t *testing.T, h http.Handler) recording {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	shown := recording{header: w.Header(), page: w.Body.Bytes()}
	ctx, cancel := context.WithCancel(t.Context())
	stream := httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.ServeHTTP(stream, httptest.NewRequestWithContext(ctx, http.MethodGet, "/?stream", nil))
	}()
	synctest.Wait()
	cancel()
	<-done
	shown.event = stream.Body.Bytes()
	return shown
}

func (p recording) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Has("stream") {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Write(p.event)
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return
	}
	for name, values := range p.header {
		w.Header()[name] = values
	}
	io.Copy(w, bytes.NewReader(p.page))
}
