package main

import (
	"context"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

// askAnthropic streams an answer with Anthropic's SDK.
func askAnthropic(ctx context.Context, hc *http.Client, p provider, prompt string) (string, error) {
	client := anthropic.NewClient(option.WithHTTPClient(hc), option.WithBaseURL(p.url), option.WithAPIKey(p.key))
	stream := client.Messages.NewStreaming(ctx, anthropic.MessageNewParams{
		Model: anthropic.Model(p.model), MaxTokens: 300,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(prompt))},
	})
	defer stream.Close()
	var text string
	for stream.Next() {
		text += stream.Current().Delta.Text
	}
	return text, stream.Err()
}
