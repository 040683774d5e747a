CREATE TABLE `visit` (
	`id` integer PRIMARY KEY NOT NULL,
	`method` text NOT NULL
);
