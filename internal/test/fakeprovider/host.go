package fakeprovider

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// Host is a [Server] that listens on the loopback interface and keeps a journal. It goes on with
// the journal of a host that was not finished, so that it still counts what came then. Make one
// with [Listen].
type Host struct {
	*Server
	URL string // without a path

	journalPath string
	http        *http.Server
	serving     sync.WaitGroup
	finished    bool
}

// Listen serves server on a port of its own, with its journal
// at path. The caller must close it.
func Listen(server *Server, path string) (*Host, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start server: %w", err)
	}
	if err := server.Keep(path); err != nil {
		return nil, errors.Join(fmt.Errorf("start server: %w", err), listener.Close())
	}
	h := &Host{
		Server: server, URL: "http://" + listener.Addr().String(), journalPath: path,
		http: &http.Server{Handler: server, ReadHeaderTimeout: 10 * time.Second},
	}
	h.serving.Go(func() { h.http.Serve(listener) }) // returns when it is closed
	return h, nil
}

// Finish makes Close put the journal aside, so that the next host begins an empty one.
func (h *Host) Finish() { h.finished = true }

// Journal returns where the journal is once the host is closed.
func (h *Host) Journal() string {
	if h.finished {
		return h.journalPath + ".last"
	}
	return h.journalPath
}

// Records reads the journal from the disk, before Close.
func (h *Host) Records() ([]Record, error) { return ReadJournal(h.journalPath) }

// Close ends the server and closes the journal. It may be called on nil.
func (h *Host) Close() error {
	if h == nil {
		return nil
	}
	h.http.Close()
	h.serving.Wait()
	err := h.CloseJournal()
	if h.finished {
		err = errors.Join(err, os.Rename(h.journalPath, h.Journal()))
	}
	return err
}
