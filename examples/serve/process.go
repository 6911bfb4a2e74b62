package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/demo"
	"github.com/redis/go-redis/v9"
)

const (
	// gatewayArg is the argument of a process that is a gateway.
	gatewayArg = "gateway"
	// endWithin bounds the time in which a gateway must end; it needs milliseconds.
	endWithin = 10 * time.Second
)

// process is a gateway in a process of its own.
type process struct {
	url      string
	command  *exec.Cmd
	lifeline io.WriteCloser // it ends when this is closed
}

// startProcess starts a gateway. The caller must end it.
func startProcess(s settings) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start gateway: %w", err)
	}
	command := exec.Command(program, gatewayArg)
	command.Stderr = os.Stderr
	in, inErr := command.StdinPipe()
	out, outErr := command.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		return nil, fmt.Errorf("start gateway: %w", err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start gateway: %w", err)
	}
	p := &process{command: command, lifeline: in}
	// The settings go through the pipe, because the URL of Redis may hold a password.
	err = json.NewEncoder(in).Encode(s)
	url, readErr := bufio.NewReader(out).ReadString('\n')
	if err := errors.Join(err, readErr); err != nil {
		return nil, errors.Join(fmt.Errorf("start gateway: %w", err), p.end())
	}
	p.url = strings.TrimSpace(url)
	return p, nil
}

// end ends the process, and returns when it has ended.
func (p *process) end() error {
	p.lifeline.Close() // the process may have ended by itself
	timer := time.AfterFunc(endWithin, func() { p.command.Process.Kill() })
	defer timer.Stop()
	if err := p.command.Wait(); err != nil {
		return fmt.Errorf("end gateway: %w", err)
	}
	return nil
}

// gatewayStatus runs a gateway and returns its exit status.
func gatewayStatus() int {
	demo.LeaveEndToParent()
	if err := runGateway(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		return 1
	}
	return 0
}

// runGateway serves until in ends: the program that started it closes it, or has died.
func runGateway(in io.Reader, out io.Writer) error {
	var s settings
	decoder := json.NewDecoder(in)
	if err := decoder.Decode(&s); err != nil {
		return fmt.Errorf("read settings: %w", err)
	}
	ctx := context.Background()
	g, err := newGateway(ctx, s)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, g.close(ctx))
	}
	server := &http.Server{Handler: g, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Fprintf(out, "http://%s\n", listener.Addr())
	io.Copy(io.Discard, in)
	ctx, cancel := context.WithTimeout(ctx, endWithin/2)
	defer cancel()
	if err = server.Shutdown(ctx); err != nil {
		err = fmt.Errorf("shut down: %w", err)
	}
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return errors.Join(err, g.close(ctx))
}

// leaveNothing deletes the keys of a run from Redis.
func leaveNothing(s settings) error {
	options, err := redis.ParseURL(s.Redis)
	if err != nil {
		return fmt.Errorf("-redis: %w", err)
	}
	client := redis.NewClient(options)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), endWithin)
	defer cancel()
	keys := client.Scan(ctx, 0, "{"+s.Prefix+"*", 1000).Iterator()
	for keys.Next(ctx) {
		if err := client.Unlink(ctx, keys.Val()).Err(); err != nil {
			return fmt.Errorf("delete the keys of this run: %w", err)
		}
	}
	if err := keys.Err(); err != nil {
		return fmt.Errorf("delete the keys of this run: %w", err)
	}
	return nil
}
