package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
)

// When nobody reads the output any more, the context ends, and the program can clean up.
func TestRunWithoutReader(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	defer func(was *os.File) { os.Stdout = was }(os.Stdout)
	os.Stdout = out
	cleaned := errors.New("cleaned up")
	err = Run(func(ctx context.Context, out io.Writer) error {
		if _, err := fmt.Fprintln(out, "read"); err != nil || ctx.Err() != nil || IsTerminal(out) {
			t.Errorf("%v, %v", err, ctx.Err())
		}
		in.Close()
		if _, err := fmt.Fprintln(out, "not read"); err == nil {
			t.Error("a write that nobody reads has no error")
		}
		<-ctx.Done()
		return cleaned
	})
	if err != cleaned {
		t.Errorf("Run = %v, want what the program returns", err)
	}
}

func TestIsTerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if IsTerminal(new(bytes.Buffer)) || !IsTerminal(null) || !IsTerminal(output{file: null}) {
		t.Error("a terminal is a file that is a character device")
	}
}
